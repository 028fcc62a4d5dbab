"""A folder of documents to import: PDF files, pictures, names and tables."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.files import png, sparse
from tests.importing.drawn import pdf, picture

DOOR = Door("documents")
SECRET = "SecretName"
ALONE = ["data", "import", "in", "--out", "new", "--ocr", "never", "--processes", "1"]
NONE = ("can be read",)
_TABLE = "file,provider,member,total_amount\n"


def _file(name: str, data: Callable[[], bytes]) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / "in").mkdir()
        (folder / "in" / name).write_bytes(data())
        return ALONE

    return make


def pdf_of_pages(count: int) -> bytes:
    """A PDF file whose pages are all the same object."""
    kids = b"3 0 R " * count
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%s]>>" % (count, kids),
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>",
    ]
    return _numbered(objects)


def _numbered(objects: list[bytes]) -> bytes:
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    return out + head + table + b"trailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(out))


def pdf_bomb() -> bytes:
    """A page whose content unpacks to 260 MB of drawing commands."""
    packed = zlib.compress(zlib.compress(b"0 0 1 1 re f " * (20 << 20), 1), 1)
    stream = b"<</Length %d/Filter[/FlateDecode/FlateDecode]>>stream\n%s\nendstream" % (len(packed), packed)
    return _numbered(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R>>",
            stream,
        ]
    )


def encrypted() -> bytes:
    """A PDF file that asks for a password."""
    from reportlab.lib import pdfencrypt
    from reportlab.pdfgen import canvas

    out = io.BytesIO()
    drawn = canvas.Canvas(out, encrypt=pdfencrypt.StandardEncryption(SECRET, canPrint=0))
    drawn.drawString(10, 10, SECRET)
    drawn.save()
    return out.getvalue()


def tiff_of_frames(count: int) -> bytes:
    """A TIFF of one-pixel frames."""
    out = io.BytesIO(b"II*\0" + struct.pack("<I", 8))
    out.seek(8)
    for number in range(count):
        here = out.tell()
        entries = ((256, 3, 1, 1), (257, 3, 1, 1), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 0),
                   (278, 3, 1, 1), (279, 4, 1, 1))  # fmt: skip
        out.write(struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries))
        out.write(struct.pack("<I", here + 2 + 12 * len(entries) + 4 if number + 1 < count else 0))
    return out.getvalue()


def _png_bomb() -> bytes:
    return png(60_000, 60_000, rows=b"\0" * 60_000_000)


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _jpeg() -> bytes:
    out = io.BytesIO()
    picture("cut off").save(out, "JPEG")
    return out.getvalue()


for _name, (_file_name, _data) in {
    "an encrypted PDF": ("a.pdf", encrypted),
    "a truncated PDF": ("a.pdf", lambda: _cut(pdf_of_pages(3))),
    "a PDF of noise": ("a.pdf", lambda: b"%PDF-1.7" + bytes(range(256)) * 99),
    "a PDF of 100,000 pages": ("a.pdf", lambda: pdf_of_pages(100_000)),
    "a PDF that unpacks to 260 MB": ("a.pdf", pdf_bomb),
    "a page longer than a street": ("a.pdf", lambda: pdf_of_pages(1).replace(b"200 200", b"200 99999")),
    "a picture bomb": ("a.png", _png_bomb),
    "a truncated picture": ("a.jpg", lambda: _cut(_jpeg())),
    "a TIFF of 5,000 frames": ("a.tif", lambda: tiff_of_frames(5_000)),
    "no picture": ("a.webp", lambda: SECRET.encode() * 9),
    "an empty file": ("a.png", lambda: b""),
    "a name with control characters": ("\x1b[31m.png", lambda: png(20, 20)),
}.items():
    DOOR.add(_name, _file(_file_name, _data), 3, says=NONE)


@DOOR.case(3, says=NONE)
def _a_name_that_is_no_unicode(folder: Path) -> list[str]:
    (folder / "in").mkdir()
    (Path(str(folder / "in").encode().decode()) / "a\udcff.png").write_bytes(png(20, 20))
    return ALONE


@DOOR.case(3, says=NONE)
def _a_pdf_of_a_terabyte(folder: Path) -> list[str]:
    sparse(folder / "in/a.pdf", 1 << 40, b"%PDF-1.4")
    return ALONE


@DOOR.case(0)
def _a_text_layer_of_scripts_and_formulas(folder: Path) -> list[str]:
    script = "<script>alert(1)</script>"
    pdf(folder / "in/=cmd().pdf", [f"www.a.example/{script} Total: 9.00", "=cmd()@a.example and more", script])
    return ALONE


def _table(content: bytes | Callable[[], bytes], name: str = "labels.csv") -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        pdf(folder / "in/a.pdf", ["Total: 9.00 of Acme"])
        (folder / name).write_bytes(content if isinstance(content, bytes) else content())
        return [*ALONE, "--labels", name]

    return make


def _workbook(part: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as parts:
        parts.writestr("[Content_Types].xml", b"<Types/>")
        parts.writestr("xl/workbook.xml", part)
    return out.getvalue()


_LAUGHS = b'<!DOCTYPE a [<!ENTITY a "x">' + b"".join(
    b'<!ENTITY a%d "%s">' % (number, b"&a%d;" % (number - 1) * 10 if number else b"&a;" * 10) for number in range(12)
)
for _name, (_file_name, _content) in {
    "a table with zero bytes": ("labels.csv", _TABLE.encode() + b"a.pdf,Ac\0me,yes,1\n"),
    "a table that is not UTF-8": ("labels.csv", _TABLE.encode() + b"a.pdf,\xff\xfe,yes,1\n"),
    "a table that is not Windows-1252": ("labels.csv", _TABLE.encode() + b"a.pdf,\x81\x8d,yes,1\n"),
    "a table of another folder": ("labels.csv", _TABLE.encode() + b"../../etc/passwd,Acme,yes,1\n"),
    "a field of a megabyte": ("labels.csv", _TABLE.encode() + b"a.pdf," + b"x" * (1 << 20) + b",yes,1\n"),
    "a table of 10,000 columns": ("labels.csv", b"file," + b",".join(b"k%d" % n for n in range(10_000)) + b"\n"),
    "a spreadsheet that is none": ("labels.xlsx", SECRET.encode() * 99),
    "a spreadsheet bomb": ("labels.xlsx", lambda: _workbook(bytes(400 << 20))),
    "a spreadsheet of a billion laughs": ("labels.xlsx", _workbook(_LAUGHS + b"]><workbook>&a11;</workbook>")),
    "JSON lines nested 100,000 deep": ("labels.jsonl", b'{"file": ' + b"[" * 100_000 + b"\n"),
    "JSON lines of objects": ("labels.jsonl", b'{"file": "a.pdf", "total": {"a": 1}}\n'),
}.items():
    DOOR.add(_name, _table(_content, _file_name), 2, says=(_file_name,))

"""Page images: bombs, damaged files, files of another kind."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from tests.hostile.case import Case, Door
from tests.hostile.files import PAGE, chunk, lines, png, sparse

DOOR = Door("images")
CHECK = ["data", "check", "red"]
_SIDE = 7900


def _page(data: bytes, name: str = "SecretName.png") -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        lines(folder / "red/corpus.jsonl", {**PAGE, "id": "SecretName_1", "image": name})
        (folder / "red" / name).write_bytes(data)
        return CHECK

    return make


def _saved(kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    Image.new("L", (_SIDE, _SIDE), 255).save(file, kind, **options)
    return file.getvalue()


def _many_scans() -> bytes:
    """A progressive JPEG whose last scan is there 20,000 times."""
    data = _saved("JPEG", progressive=True)
    at = data.rindex(b"\xff\xda")
    return data[:-2] + data[at:-2] * 20_000 + data[-2:]


def _tiff(*tags: tuple[int, int, int, int], size: int = 0) -> bytes:
    """A TIFF of tags (number, type, count, value) alone."""
    entries = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + struct.pack("<I", 0) + b"\0" * size


def _truncated() -> bytes:
    return png(500, 500)[:600]


FILES: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "text": lambda: b"no picture",
    "a size of zero": lambda: png(0, 0, rows=b""),
    "a width of zero": lambda: png(0, 10, rows=b""),
    "2^31 pixels a side": lambda: png(2**31 - 1, 2**31 - 1, rows=b""),
    "100,000 pixels a side": lambda: png(100_000, 100_000, rows=b""),
    "as wide as a line": lambda: png(60_000, 1),
    "a text chunk that expands": lambda: png(
        10, 10, chunks=chunk(b"zTXt", b"a\0\0" + zlib.compress(b"\0" * 300_000_000, 1))
    ),
    "a colour profile that expands": lambda: png(
        10, 10, chunks=chunk(b"iCCP", b"a\0\0" + zlib.compress(b"\0" * 300_000_000, 1))
    ),
    "pixels that expand beyond the page": lambda: png(10, 10, rows=b"\0" * 300_000_000),
    "a JPEG of 20,000 scans": _many_scans,
    "a TIFF that reads its bytes 4,000 times": lambda: _tiff(
        *((40_000 + at, 1, 4_000_000, 8) for at in range(4000)), size=4_000_000
    ),
    "a TIFF whose tags promise 4 GB": lambda: _tiff((256, 4, 2**32 - 1, 8), (257, 4, 2**32 - 1, 8)),
    "a GIF": lambda: b"GIF89a" + b"\0" * 100,
    "an EPS": lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n(/bin/id) run\n",
    "a PDF": lambda: b"%PDF-1.4\n",
    "an SVG": lambda: b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
}
for _name, _data in FILES.items():
    DOOR.cases.append(
        Case(_name, DOOR.name, lambda folder, data=_data: _page(data())(folder), (0,), (), ("SecretName",))
    )


@DOOR.case(0, silent=("SecretName",))
def _cut_short(folder: Path) -> list[str]:
    return _page(_truncated())(folder)


@DOOR.case(0)
def _white_page_of_62_million_pixels(folder: Path) -> list[str]:
    return _page(_saved("PNG"))(folder)


@DOOR.case(0, silent=("SecretName",))
def _a_terabyte(folder: Path) -> list[str]:
    arguments = _page(b"")(folder)
    sparse(folder / "red/SecretName.png", 1 << 40, png(10, 10)[:40])
    return arguments


@DOOR.case(2, says=("larger than",))
def _a_terabyte_to_convert(folder: Path) -> list[str]:
    _a_terabyte(folder)
    return ["data", "convert", "red", "--out", "new"]


@DOOR.case(3, says=("its page image cannot be used",), silent=("SecretName",))
def _all_corrupt(folder: Path) -> list[str]:
    rows = []
    (folder / "red").mkdir()
    for number in range(40):
        question = {**PAGE["questions"][0], "id": f"q{number}"}
        label = "member" if number % 2 else "non_member"
        rows.append({**PAGE, "id": f"SecretName{number}_1", "provider": f"Acme{number}", "membership": label})
        rows[-1] |= {"image": f"{number}.png", "questions": [question], "words": [f"Acme{number}", "12"]}
        (folder / f"red/{number}.png").write_bytes(b"no picture")
    lines(folder / "red/corpus.jsonl", *rows)
    return ["memorize", "--red", "red", "--export", "vendor"]

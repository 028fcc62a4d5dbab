"""Pages of PDF files and pictures as plain data; runs in the sandbox (``pages.py``), where a decoder may fail."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from PIL import Image, ImageOps

from pfl_audit.documents.image_file import MAX_FILE, MAX_RATIO, beyond, open_picture
from pfl_audit.documents.record_validation import MAX_PAGE, MAX_WORD, MAX_WORDS
from pfl_audit.inputs import MIB
from pfl_audit.sandbox import RefusedError

MAX_PAGES = 2_000
"""Pages of a document."""
MAX_RENDERED = 16_000_000
"""Pixels of a rendered page; a larger page is rendered at a lower resolution."""
_JPEG_QUALITY = 92
_FEWEST_WORDS = 3
_MOST_UNREADABLE = 0.2
"""A text layer with fewer words, or a larger share of letters without a meaning, does not count."""
_SCALE = 1_000_000


def answer(action: str, name: str, file: BinaryIO, page: int = 0, dpi: int = 0) -> Any:
    """Answer a call of the parent.

    Args:
        action: "count" for the number of pages, "page" for one page.
        name: Name of the document, which stays open until another one is asked for.
        file: PDF file or picture.
        page: Number of the page, from 0.
        dpi: Resolution of rendered pages.

    Returns:
        The number of pages, or the page: ``picture`` (bytes), ``suffix``, and the ``words`` and ``boxes`` of its text
        layer, None where it has none.

    Raises:
        RefusedError: A limit is exceeded, or the file is not of its kind.
    """
    if name not in _opened:
        _opened.clear()
        _opened[name] = _open(file.read(MAX_FILE))
    document = _opened[name]
    if action == "count":
        return document.count()
    if not 0 <= page < document.count():
        raise RefusedError("it has no such page")
    return document.page(page, dpi)


_opened: dict[str, Any] = {}


def _open(data: bytes) -> _Pdf | _Picture:
    if not data:
        raise RefusedError("it is empty")
    return _Pdf(data) if b"%PDF-" in data[:1024] else _Picture(data)


class _Pdf:
    def __init__(self, data: bytes) -> None:
        import pypdfium2

        try:
            self._file = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            locked = "password" in str(error).lower()
            raise RefusedError("it is encrypted; save it without a password" if locked else "it is damaged") from error

    def count(self) -> int:
        return _checked(len(self._file))

    def page(self, number: int, dpi: int) -> dict[str, Any]:
        import pypdfium2

        try:
            page = self._file[number]
        except pypdfium2.PdfiumError as error:
            raise RefusedError("the page is damaged") from error
        width, height = page.get_size()
        if not (0 < width < float("inf") and 0 < height < float("inf")) or max(width, height) > MAX_RATIO * min(
            width, height
        ):
            raise RefusedError(f"a page is longer than {MAX_RATIO} to 1")
        scale = min(dpi / 72, (MAX_RENDERED / (width * height)) ** 0.5)
        picture = page.render(scale=scale).to_pil().convert("RGB")
        found = _text_layer(page)
        words, boxes = found or (None, None)
        return {"picture": _encoded(picture, "JPEG"), "suffix": ".jpg", "words": words, "boxes": boxes}


class _Picture:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def count(self) -> int:
        with open_picture(io.BytesIO(self._data)) as image:
            return _checked(getattr(image, "n_frames", 1)) if image.format == "TIFF" else 1

    def page(self, number: int, dpi: int) -> dict[str, Any]:
        with open_picture(io.BytesIO(self._data)) as image:
            image.seek(number)
            if (reason := beyond(*image.size)) is not None:
                raise RefusedError(f"it has {image.width} x {image.height} pixels, {reason}")
            lossy = image.format == "JPEG"
            picture = _on_white(ImageOps.exif_transpose(image))
        kind = "JPEG" if lossy else "PNG"
        suffix = ".jpg" if lossy else ".png"
        return {"picture": _encoded(picture, kind), "suffix": suffix, "words": None, "boxes": None}


def _checked(count: int) -> int:
    if count > MAX_PAGES:
        raise RefusedError(f"it has more than {MAX_PAGES:,} pages")
    if count < 1:
        raise RefusedError("it has no page")
    return count


def _on_white(image: Image.Image) -> Image.Image:
    """The picture as RGB: 16 bits become 8, transparent parts white."""
    if image.mode.startswith("I"):
        return image.point(lambda value: value / 256).convert("L").convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        page = Image.new("RGB", layer.size, (255, 255, 255))
        page.paste(layer, mask=layer.getchannel("A"))
        return page
    return image.convert("RGB")


def _encoded(picture: Image.Image, kind: str) -> bytes:
    """The picture without the metadata of its source."""
    out = io.BytesIO()
    picture.info.clear()
    picture.save(out, kind, **({"quality": _JPEG_QUALITY} if kind == "JPEG" else {}))
    if out.tell() > MAX_FILE:
        raise RefusedError(f"its picture is larger than {MAX_FILE // MIB} MiB")
    return out.getvalue()


def _text_layer(page: Any) -> tuple[list[str], list[list[float]]] | None:
    """Words of the text layer and their boxes as shares of the page; None where it is none that can be read."""
    layer = page.get_textpage()
    count = layer.count_chars()
    if count > 2 * MAX_PAGE:
        raise RefusedError(f"its text layer has more than {2 * MAX_PAGE:,} letters")
    text = layer.get_text_range(0, count, errors="replace") if count else ""
    if len(text) != count:  # letters beyond the basic plane count twice in pdfium
        text = "".join(_letter(layer, at) for at in range(count))
    words: list[str] = []
    boxes: list[list[float]] = []
    corners: list[tuple[float, float]] = []
    word, unreadable, letters = "", 0, 0
    to_share = _device(page)
    for at in range(count + 1):
        letter = text[at] if at < count else " "
        if letter.isspace() or (not letter.isprintable() and letter != "�"):
            if word and (box := _on_page(corners)):
                words.append(word[:MAX_WORD])
                boxes.append(box)
            word, corners = "", []
            continue
        letters += 1
        unreadable += letter == "�" or "\ue000" <= letter <= "\uf8ff"
        left, low, right, high = layer.get_charbox(at)
        word += letter
        corners += [to_share(left, low), to_share(right, high)]
    if len(words) < _FEWEST_WORDS or unreadable > _MOST_UNREADABLE * letters:
        return None
    if len(words) > MAX_WORDS:
        raise RefusedError(f"its text layer has more than {MAX_WORDS:,} words")
    return words, boxes


def _on_page(corners: list[tuple[float, float]]) -> list[float] | None:
    """Box around corners, clipped to the page; None of a word that is beside the page."""
    xs, ys = ([min(1.0, max(0.0, value)) for value in side] for side in zip(*corners, strict=True))
    box = [min(xs), min(ys), max(xs), max(ys)]
    return box if box[0] < box[2] and box[1] < box[3] else None


def _letter(layer: Any, at: int) -> str:
    from pypdfium2 import raw

    code = raw.FPDFText_GetUnicode(layer, at)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "�"


def _device(page: Any) -> Any:
    """Converts a point of the page, which may be rotated or cropped, to shares of its picture."""
    from ctypes import byref, c_int

    from pypdfium2 import raw

    x, y = c_int(), c_int()

    def convert(left: float, low: float) -> tuple[float, float]:
        raw.FPDF_PageToDevice(page, 0, 0, _SCALE, _SCALE, 0, left, low, byref(x), byref(y))
        return x.value / _SCALE, y.value / _SCALE

    return convert

"""Pages of PDF files and pictures as plain data; runs in the sandbox (``pages.py``), where a decoder may fail."""

from __future__ import annotations

import contextlib
import io
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, ImageOps

from pfl_audit.documents.image_file import MAX_FILE, MAX_RATIO, beyond, open_picture
from pfl_audit.documents.page_ink import printed, share_of_ink, under_bars
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
_MOST_RASTER = 0.5
"""Share of a page that a picture covers, from which on the page may be a scan."""
_LEAST_INK = 0.5
"""Share of a scan's ink in the words of its text layer, below which the layer is a stamp and not the scan's text."""
_SCALE = 1_000_000
_EMPTY = 2
"""Bytes of an empty text in pdfium."""
_NO_LAYER = {"words": None, "boxes": None, "scan": False, "hidden": 0, "covered": 0, "undrawn": 0}


def answer(action: str, name: str, file: BinaryIO, page: int = 0, dpi: int = 0) -> Any:
    """Answer a call of the parent.

    Args:
        action: "count" for the number of pages, "page" for one page.
        name: Name of the document, which stays open until another one is asked for.
        file: PDF file or picture.
        page: Number of the page, from 0.
        dpi: Resolution of rendered pages.

    Returns:
        The number of pages, or the page: ``picture`` (bytes), ``lossy`` for a JPEG, the ``words`` and ``boxes`` of its
        text layer that are printed, None where it has none, ``scan``, whether a scan holds what the layer does not, and
        the numbers of ``hidden`` words in the layer, of those of them that are ``covered`` by a bar, and of typed
        annotations that are ``undrawn``.

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
            self._file.init_forms()  # before the first page: fields get the appearance that they lack
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
        # Fields and annotations become content of the page, which is what the text layer is made of.
        undrawn = _undrawn(page)
        if pypdfium2.raw.FPDFPage_Flatten(page, pypdfium2.raw.FLAT_NORMALDISPLAY) == pypdfium2.raw.FLATTEN_SUCCESS:
            page.close()
            page = self._file[number]
        scale = min(dpi / 72, (MAX_RENDERED / (width * height)) ** 0.5)
        picture = page.render(scale=scale).to_pil().convert("RGB")
        return {"picture": _encoded(picture, "JPEG"), "lossy": True, **_layer(page, picture), "undrawn": undrawn}


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
        return {"picture": _encoded(picture, kind), "lossy": lossy, **_NO_LAYER}


def _checked(count: int) -> int:
    if count > MAX_PAGES:
        raise RefusedError(f"it has more than {MAX_PAGES:,} pages")
    if count < 1:
        raise RefusedError("it has no page")
    return count


def _on_white(image: Image.Image) -> Image.Image:
    """The picture as RGB: more bits become 8, transparent parts white."""
    if image.mode.startswith(("I", "F")):
        return Image.fromarray(in_8_bits(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        page = Image.new("RGB", layer.size, (255, 255, 255))
        page.paste(layer, mask=layer.getchannel("A"))
        return page
    return image.convert("RGB")


def in_8_bits(levels: np.ndarray) -> np.ndarray:
    """Grey levels as uint8: 8, 12 or 16 bits of integers, or numbers from 0 to 1, by the largest."""
    largest = float(np.nanmax(levels))
    full = next((one for one in (255.0, 4095.0, 65535.0) if largest <= one), largest)
    full = 1.0 if levels.dtype.kind == "f" and largest <= 1 else full
    return np.asarray(np.clip(np.nan_to_num(levels) / full, 0, 1) * 255 + 0.5, dtype=np.uint8)


def _encoded(picture: Image.Image, kind: str) -> bytes:
    """The picture without the metadata of its source."""
    out = io.BytesIO()
    picture.info.clear()
    picture.save(out, kind, **({"quality": _JPEG_QUALITY} if kind == "JPEG" else {}))
    if out.tell() > MAX_FILE:
        raise RefusedError(f"its picture is larger than {MAX_FILE // MIB} MiB")
    return out.getvalue()


def _layer(page: Any, picture: Image.Image) -> dict[str, Any]:
    """The text layer as ``answer`` returns it."""
    words, boxes = _text_layer(page) or ([], [])
    grey = np.asarray(picture.convert("L"))
    seen = printed(grey, boxes)
    hidden = [box for box, is_seen in zip(boxes, seen, strict=True) if not is_seen]
    kept = [(word, box) for word, box, is_seen in zip(words, boxes, seen, strict=True) if is_seen]
    found = {"hidden": len(hidden), "covered": int(under_bars(grey, hidden).sum())}
    if len(kept) < _FEWEST_WORDS:
        return _NO_LAYER | found
    words, boxes = map(list, zip(*kept, strict=True))
    scan = _raster(page) >= _MOST_RASTER and share_of_ink(grey, boxes) < _LEAST_INK
    return found | {"words": words, "boxes": boxes, "scan": scan}


def _undrawn(page: Any) -> int:
    """Number of typed annotations without an appearance, which each viewer draws as it likes and pdfium does not."""
    from pypdfium2 import raw

    found = 0
    for at in range(raw.FPDFPage_GetAnnotCount(page)):
        if annotation := raw.FPDFPage_GetAnnot(page, at):
            typed = raw.FPDFAnnot_GetSubtype(annotation) == raw.FPDF_ANNOT_FREETEXT
            found += typed and raw.FPDFAnnot_GetAP(annotation, raw.FPDF_ANNOT_APPEARANCEMODE_NORMAL, None, 0) <= _EMPTY
            raw.FPDFPage_CloseAnnot(annotation)
    return found


def _raster(page: Any) -> float:
    """Area of the pictures as a share of the page; those in a form object have its coordinates."""
    from pypdfium2 import PdfiumError, raw

    width, height = page.get_size()
    area = 0.0
    for part in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        with contextlib.suppress(PdfiumError):
            box = part.get_bounds()
            while (part := part.container) is not None:
                box = part.get_matrix().on_rect(*box)
            area += (box[2] - box[0]) * (box[3] - box[1])
    return area / (width * height)


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

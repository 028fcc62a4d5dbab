"""Image files, opened with Pillow within limits. ``answer`` runs in the sandbox of ``images.py``."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import BinaryIO

from PIL import Image, ImageFile

from pfl_audit.inputs import MIB
from pfl_audit.sandbox import RefusedError

FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "WEBP")
MAX_FILE = 256 * MIB
MAX_PIXELS = 64_000_000
"""Largest page that is opened: an A4 page at 800 dpi. Larger images are treated as decompression bombs."""
MAX_SIDE = 65_500
"""Longest side of a page: the limit of JPEG, in which evidence is stored."""
MAX_RATIO = 20
"""Largest ratio of the sides of a page."""


def answer(action: str, picture: BinaryIO | bytes) -> tuple[int, int, bytes]:
    """Width, height and pixels of a picture.

    Truncated files are read as far as possible (some pages of PFL-DocVQA are truncated).

    Args:
        action: "size" for no pixels, which reads the header alone; "page" for RGB.
        picture: The file, or its bytes.

    Raises:
        RefusedError: It is none, or exceeds a limit.
    """
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    with open_picture(io.BytesIO(picture) if isinstance(picture, bytes) else picture) as image:
        if action == "size":
            return *image.size, b""
        if (reason := beyond(*image.size)) is not None:
            raise RefusedError(f"its header declares {image.width} x {image.height} pixels, {reason}")
        return *image.size, image.convert("RGB").tobytes()


@contextlib.contextmanager
def open_picture(file: BinaryIO) -> Iterator[Image.Image]:
    """Open the image in an open file lazily: the header is read, the pixels are not.

    Raises:
        RefusedError: It is a decompression bomb.
        Exception: Any exception of Pillow's decoders.
    """
    try:
        with Image.open(file, formats=FORMATS) as image:
            yield image
    except Image.DecompressionBombError as error:
        raise RefusedError("it is a decompression bomb") from error


def beyond(width: int, height: int) -> str | None:
    """Reason why a page of this size is not opened, or None."""
    if width * height > MAX_PIXELS:
        return f"more than {MAX_PIXELS:,}"
    if max(width, height) > MAX_SIDE:
        return f"more than {MAX_SIDE:,} on a side"
    if max(width, height) > MAX_RATIO * min(width, height):
        return f"more than {MAX_RATIO} to 1"
    return None

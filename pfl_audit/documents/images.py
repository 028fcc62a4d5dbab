"""Page images: opened within limits, blurred in boxes, identified by a digest of their content."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Protocol

from PIL import Image, ImageFile, ImageFilter

from pfl_audit.documents.image_file import MAX_FILE, open_picture
from pfl_audit.errors import AuditError, UnanswerableError, UsageError
from pfl_audit.files import sha256_json
from pfl_audit.inputs import open_input, sha256_input

Box = tuple[float, float, float, float]

MAX_PIXELS = 64_000_000
"""Largest page that is opened: an A4 page at 800 dpi. Larger images are treated as decompression bombs."""

MAX_SIDE = 65_500
"""Longest side of a page: the limit of JPEG, in which evidence is stored."""
MAX_RATIO = 20
"""Largest ratio of the sides of a page."""

BLUR_RADIUS = 20
"""Radius of the Gaussian kernel in pixels (privacy-aware-docvqa, appendix D.1.1)."""
BLUR_MARGIN = 0.5
"""Margin around a box as a share of its height: OCR boxes cut letters off (docs/scrubbing.md)."""

_DECODING = threading.Lock()
"""Held while Pillow's switch for truncated files, which all threads share, is changed."""


class Stored(Protocol):
    """Bytes of a picture inside of another file."""

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes."""

    def read(self) -> bytes:
        """Read the bytes."""


@dataclass(frozen=True)
class PageImage:
    """A page image on disk, and the boxes that are blurred when it is opened.

    Attributes:
        path: Image file, opened only when pixels are needed.
        blurred: Boxes to blur, as shares of the page.
        stored: The bytes where they are not those of ``path``, which is then a name alone.
    """

    path: Path
    blurred: tuple[Box, ...] = ()
    stored: Stored | None = None

    def open(self) -> Image.Image:
        """Read the page as RGB, with the boxes blurred.

        Truncated files are read as far as possible (some pages of PFL-DocVQA are truncated).

        Raises:
            UnanswerableError: Not an image of a supported format, more than MAX_PIXELS pixels, or a
                side beyond MAX_SIDE or MAX_RATIO.
        """
        page = self._read()
        return blur(page, self.blurred) if self.blurred else page

    def size(self) -> tuple[int, int]:
        """Width and height in pixels, from the header of the file.

        Raises:
            UnanswerableError: The file is not an image.
        """
        with _readable(self.path), self.file() as file, open_picture(file) as image:
            return image.size

    def file(self) -> BinaryIO:
        """Open the bytes of the picture.

        Raises:
            AuditError: The file cannot be read.
        """
        return io.BytesIO(self.stored.read()) if self.stored else open_input(self.path, limit=MAX_FILE)

    def _read(self) -> Image.Image:
        with _readable(self.path), self.file() as file, open_picture(file) as image:
            if (reason := _beyond(image.width, image.height)) is not None:
                raise _unusable(self.path, f"its header declares {image.width} x {image.height} pixels, {reason}")
            return _decode(image)

    def blur(self, boxes: Sequence[Box]) -> PageImage:
        """The same image with ``boxes`` blurred as well."""
        return replace(self, blurred=self.blurred + tuple(boxes))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes of the file and of the blurred boxes.

        Raises:
            UnanswerableError: The file cannot be read.
        """
        with _readable(self.path):
            content = self.stored.sha256 if self.stored else sha256_input(self.path, limit=MAX_FILE)
        return (
            sha256_json([content, BLUR_RADIUS, BLUR_MARGIN, [list(box) for box in self.blurred]])
            if self.blurred
            else content
        )


def blur(
    page: Image.Image, boxes: Sequence[Box], radius: int = BLUR_RADIUS, margin: float = BLUR_MARGIN
) -> Image.Image:
    """Return a copy of ``page`` with a Gaussian blur over every box and a margin around it.

    Args:
        page: Image of any mode that Pillow can blur.
        boxes: Left, top, right, bottom as shares of the page.
        radius: Smallest radius of the kernel in pixels; half the height of a box if that is larger, since large
            letters stay legible otherwise.
        margin: Margin around a box as a share of its height.
    """
    out = page.copy()
    width, height = page.size
    for left, top, right, bottom in boxes:
        box_height = (bottom - top) * height
        around, kernel = margin * box_height, max(float(radius), box_height / 2)
        box = (
            max(int(left * width - around) - 1, 0),
            max(int(top * height - around) - 1, 0),
            min(int(right * width + around) + 2, width),
            min(int(bottom * height + around) + 2, height),
        )
        if box[0] >= box[2] or box[1] >= box[3]:
            continue
        # Blurred from the box alone, so that nothing around it is drawn in and nothing leaks out.
        out.paste(out.crop(box).filter(ImageFilter.GaussianBlur(kernel)), box[:2])
    return out


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Convert all exceptions of reading an image to UnanswerableError."""
    try:
        yield
    except UnanswerableError:
        raise
    except UsageError as error:
        raise _unusable(path, "there is no such file") from error
    except AuditError as error:
        raise _unusable(path, f"it {error.problem.removeprefix(f'{path} ')}") from error
    except Image.DecompressionBombError as error:
        raise _unusable(path, "it is a decompression bomb") from error
    except Exception as error:  # Pillow's decoders raise many kinds
        raise _unusable(path, "it is no image that can be read") from error


def _beyond(width: int, height: int) -> str | None:
    """Reason why a page of this size is not opened, or None."""
    if width * height > MAX_PIXELS:
        return f"more than {MAX_PIXELS:,}"
    if max(width, height) > MAX_SIDE:
        return f"more than {MAX_SIDE:,} on a side"
    if max(width, height) > MAX_RATIO * min(width, height):
        return f"more than {MAX_RATIO} to 1"
    return None


def _decode(image: Image.Image) -> Image.Image:
    with _DECODING:
        before = ImageFile.LOAD_TRUNCATED_IMAGES
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        try:
            return image.convert("RGB")
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = before


def _unusable(path: Path, reason: str) -> UnanswerableError:
    return UnanswerableError(
        f"page image {path} cannot be used: {reason}",
        "Run 'pfl-audit data check' on the corpus",
        f"its page image cannot be used: {reason}",
    )

"""Page images: opened within limits, blurred in boxes, identified by a digest of their content."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Protocol

from PIL import Image, ImageFilter

from pfl_audit.documents.image_file import MAX_FILE
from pfl_audit.errors import AuditError, UnanswerableError, UsageError
from pfl_audit.files import sha256_json
from pfl_audit.inputs import open_input, sha256_input
from pfl_audit.sandbox import Sandbox, SandboxError

Box = tuple[float, float, float, float]

BLUR_RADIUS = 20
"""Radius of the Gaussian kernel in pixels (privacy-aware-docvqa, appendix D.1.1)."""
BLUR_MARGIN = 0.5
"""Margin around a box as a share of its height: OCR boxes cut letters off (docs/scrubbing.md)."""

_CHILD = Sandbox("pfl_audit.documents.image_file:answer", memory=2 << 30, seconds=10)
"""For all pictures of a process; one of 64 million pixels takes two seconds."""


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
        width, height, pixels = self._ask("page")
        page = Image.frombytes("RGB", (width, height), pixels)
        return blur(page, self.blurred) if self.blurred else page

    def size(self) -> tuple[int, int]:
        """Width and height in pixels, from the header of the file.

        Raises:
            UnanswerableError: The file is not an image.
        """
        width, height, _ = self._ask("size")
        return width, height

    def file(self) -> BinaryIO:
        """Open the bytes of the picture.

        Raises:
            AuditError: The file cannot be read.
        """
        return io.BytesIO(self.stored.read()) if self.stored else open_input(self.path, limit=MAX_FILE)

    def _ask(self, action: str) -> tuple[int, int, bytes]:
        with _readable(self.path), self.file() as file:
            width, height, pixels = _sized(_CHILD.call(action, file.read() if self.stored else file))
            if action == "page" and len(pixels) != 3 * width * height:
                raise ValueError("other pixels than its header declares")
            return width, height, pixels

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


def size_of(picture: bytes) -> tuple[int, int] | None:
    """Width and height by the header of a picture; None of what is no picture."""
    try:
        return _sized(_CHILD.call("size", picture))[:2]
    except (SandboxError, ValueError):
        return None


def _sized(answer: object) -> tuple[int, int, bytes]:
    """Width, height and pixels, as a child answers that was not taken over."""
    match answer:
        case [int() as width, int() as height, bytes() as pixels] if width > 0 and height > 0:
            return width, height, pixels
    raise ValueError("no picture")


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
    except SandboxError as error:
        raise _unusable(path, error.reason("it is no image that can be read")) from error
    except ValueError as error:  # the child was taken over, or changed the size in its header
        raise _unusable(path, "it is no image that can be read") from error


def _unusable(path: Path, reason: str) -> UnanswerableError:
    return UnanswerableError(
        f"page image {path} cannot be used: {reason}",
        "Run 'pfl-audit data check' on the corpus",
        f"its page image cannot be used: {reason}",
    )

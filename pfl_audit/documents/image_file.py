"""Image files, opened with Pillow within limits."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import IO, BinaryIO, cast

from PIL import Image

from pfl_audit.inputs import MIB

warnings.filterwarnings("ignore", module="PIL")  # not around each picture: threads share the filters
FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "WEBP")
MAX_FILE = 256 * MIB
_READINGS = 4
"""Largest number of times that a decoder may read a file: a TIFF may refer to the same bytes thousands of times."""
MAX_SCANS = 100
"""Largest number of scans of a JPEG, each of which takes a pass over all pixels; progressive ones have about ten."""
_SCAN = b"\xff\xda"


@contextlib.contextmanager
def open_picture(file: BinaryIO) -> Iterator[Image.Image]:
    """Open the image in an open file lazily: the header is read, the pixels are not.

    Raises:
        Exception: Any exception of Pillow's decoders.
    """
    with Image.open(cast("IO[bytes]", _Limited(file)), formats=FORMATS) as image:
        if image.format == "JPEG":
            _check_scans(file)
        yield image


class _Limited:
    """A file of which at most _READINGS times its size is read, whatever its header declares."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, 2)
        self._left = _READINGS * self._size + MIB
        file.seek(0)

    def read(self, size: int = -1) -> bytes:
        """Read bytes."""
        most = max(0, self._size - self._file.tell())
        self._left -= most if size < 0 else min(size, most)
        if self._left < 0:
            raise ValueError("the picture is read too often")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Change the position."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Current position."""
        return self._file.tell()


def _check_scans(file: BinaryIO) -> None:
    here = file.tell()
    file.seek(0)
    scans, last = 0, b""
    while chunk := file.read(MIB):
        scans += (last + chunk).count(_SCAN)
        last = chunk[-1:]
    file.seek(here)
    if scans > MAX_SCANS:
        raise ValueError(f"the picture has more than {MAX_SCANS} scans")

"""Files of pictures, opened for Pillow within limits."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from PIL import Image

from pfl_audit.inputs import MIB, open_input

FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "WEBP")
MAX_FILE = 256 * MIB
_READINGS = 4
"""How often a decoder may read a file's bytes: a TIFF may name the same bytes thousands of times."""
MAX_SCANS = 100
"""Scans of a JPEG, each of which costs a pass over all pixels; progressive ones have about ten."""
_SCAN = b"\xff\xda"


@contextlib.contextmanager
def open_image_file(path: Path) -> Iterator[Image.Image]:
    """A picture whose header is read and whose pixels are not.

    Raises:
        AuditError: It is not a regular file, or too large.
        UsageError: There is no such file.
        Exception: Pillow's decoders raise many kinds.
    """
    with open_input(path, limit=MAX_FILE) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(_Limited(file), formats=FORMATS) as image:  # type: ignore[arg-type]
            if image.format == "JPEG":
                _check_scans(file)
            yield image


class _Limited:
    """A file of which at most _READINGS times its size is read, so that what a header promises stays within that."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, 2)
        self._left = _READINGS * self._size + MIB
        file.seek(0)

    def read(self, size: int = -1) -> bytes:
        """Read as a file does."""
        most = max(0, self._size - self._file.tell())
        self._left -= most if size < 0 else min(size, most)
        if self._left < 0:
            raise ValueError("the picture is read too often")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Seek as a file does."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Where the next byte is read."""
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

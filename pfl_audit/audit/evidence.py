"""What shows a finding: kept whole in a private folder, masked in the report."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from math import ceil, floor
from pathlib import Path

from PIL import Image, ImageDraw

from pfl_audit.documents.images import MAX_SIDE, Box
from pfl_audit.files import atomic_write, write_json

PRIVATE = "private"
PUBLIC = "evidence"
_MOSAIC = 28
"""Blocks across a masked page: enough to tell a letterhead from a table, not to read or recognise."""
_COARSE = 6
"""Blocks across a field that is about as high as wide."""
_BLOCK_RATIO = 2
_WIDTH = 420
_FRAME = (20, 90, 200)


class EvidenceBox:
    """Keeps what a run recovered.

    Args:
        folder: Of the run.
        reveal: Show pages as they are.
    """

    def __init__(self, folder: Path, *, reveal: bool = False) -> None:
        self._folder = folder
        self._reveal = reveal

    def keep_page(self, name: str, page: Image.Image) -> None:
        """Keep a page whole in the private folder, readable by the owner only.

        A page that JPEG cannot hold is left out: a picture less is no reason to lose an audit.
        """
        with contextlib.suppress(_UnencodableError):
            _save(page, self._folder / PRIVATE / f"{name}.jpg")

    def keep_json(self, name: str, value: object) -> None:
        """Keep what was recovered in the private folder, readable by the owner only."""
        write_json(self._folder / PRIVATE / f"{name}.json", value)

    def show_page(self, name: str, page: Image.Image, blurred: Sequence[Box]) -> str:
        """Make a picture for the report, with a frame around what is blurred.

        Returns:
            Its path relative to the run's folder.
        """
        picture = _shrink(page) if self._reveal else _mosaic(page)
        draw = ImageDraw.Draw(picture)
        for left, top, right, bottom in blurred:
            width, height = picture.size
            draw.rectangle(
                (left * width - 3, top * height - 3, right * width + 3, bottom * height + 3), outline=_FRAME, width=2
            )
        path = Path(PUBLIC) / f"{name}.jpg"
        _save(picture, self._folder / path)
        return str(path)

    def show_picture(self, name: str, picture: Image.Image, private: Sequence[Box]) -> str:
        """Make a picture for the report of which only some places are private: coarse blocks there, unless revealed.

        Returns:
            Its path relative to the run's folder.
        """
        shown = picture.convert("RGB")
        for left, top, right, bottom in () if self._reveal else private:
            width, height = shown.size
            window = (
                max(0, floor(left * width)),
                max(0, floor(top * height)),
                min(width, ceil(right * width)),
                min(height, ceil(bottom * height)),
            )
            inside = shown.crop(window)
            blocks = (max(1, inside.width // max(1, inside.height)), 1)
            if inside.width < _BLOCK_RATIO * inside.height:  # as wide as high, or a whole page
                blocks = (_COARSE, _COARSE)
            coarse = inside.resize(blocks, Image.Resampling.BOX)
            shown.paste(coarse.resize(inside.size, Image.Resampling.NEAREST), window)
        path = Path(PUBLIC) / f"{name}.jpg"
        _save(shown, self._folder / path)
        return str(path)


def _shrink(page: Image.Image) -> Image.Image:
    return page.resize(_size(page), Image.Resampling.LANCZOS)


def _mosaic(page: Image.Image) -> Image.Image:
    rows = max(1, round(page.height * _MOSAIC / page.width))
    return page.resize((_MOSAIC, rows), Image.Resampling.BOX).resize(_size(page), Image.Resampling.NEAREST)


def _size(page: Image.Image) -> tuple[int, int]:
    return _WIDTH, min(max(1, round(page.height * _WIDTH / page.width)), MAX_SIDE)


class _UnencodableError(Exception):
    """A picture that JPEG cannot hold."""


def _save(picture: Image.Image, path: Path) -> None:
    data = io.BytesIO()
    try:
        picture.convert("RGB").save(data, "JPEG", quality=70)
    except (OSError, ValueError) as error:
        raise _UnencodableError from error
    with atomic_write(path) as file:
        file.write(data.getvalue())

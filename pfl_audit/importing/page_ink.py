"""Words of a page held against its picture: which of them a reader sees, and how much of the ink they account for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pfl_audit.metrics.arrays import Bools

Grey = NDArray[np.uint8]

_CONTRAST: Final = 16
"""Levels of 255 between the darkest and the lightest pixel of a box, below which nothing is printed there."""
_DARK: Final = 128
_EDGE: Final = 32
"""Levels of 255 between two neighbours, from which on one of them is ink."""


def printed(picture: Grey, boxes: Sequence[Sequence[float]]) -> Bools:
    """Words with contrast in their boxes: light on dark is print, white on white and a bar over a word are not.

    Other ink in the box, such as a picture over a hidden word or the edge of a bar that is narrower than the word,
    looks like print.

    Args:
        picture: uint8 (height, width).
        boxes: Left, top, right, bottom of each word as shares of the page.

    Returns:
        bool (words,).
    """
    return np.array([np.ptp(_part(picture, box)) >= _CONTRAST for box in boxes], dtype=bool)


def under_bars(picture: Grey, boxes: Sequence[Sequence[float]]) -> Bools:
    """Words without contrast in a dark place: text below a redaction bar is still in the file.

    Args:
        picture: uint8 (height, width).
        boxes: Boxes of words that are not printed, as of ``printed``.

    Returns:
        bool (words,).
    """
    return np.array([_part(picture, box).mean() < _DARK for box in boxes], dtype=bool)


def share_of_ink(picture: Grey, boxes: Sequence[Sequence[float]]) -> float:
    """Share of the edges in a picture that lie in the boxes of words; 1 for a page without any.

    Args:
        picture: uint8 (height, width).
        boxes: As of ``printed``.
    """
    edges = np.abs(np.diff(picture.astype(np.int16), axis=1)) >= _EDGE
    inside = np.zeros_like(edges)
    for box in boxes:
        _part(inside, box)[...] = True
    return float((edges & inside).sum() / total) if (total := int(edges.sum())) else 1.0


def _part(pixels: NDArray[np.generic], box: Sequence[float]) -> NDArray[np.generic]:
    """The pixels of a box, at least one."""
    height, width = pixels.shape
    left, top = int(box[0] * (width - 1)), int(box[1] * (height - 1))
    return pixels[top : max(top + 1, round(box[3] * height)), left : max(left + 1, round(box[2] * width))]

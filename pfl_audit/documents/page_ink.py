"""Words of a page held against its picture: which of them a reader sees, and how much of the ink they account for."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pfl_audit.documents.images import PageImage
from pfl_audit.errors import UnanswerableError
from pfl_audit.metrics.arrays import Bools, Floats

Grey = NDArray[np.uint8]
Boxes = Sequence[Sequence[float]] | NDArray[np.floating[Any]]
"""Left, top, right, bottom of each word."""

_CONTRAST: Final = 16.0
"""Levels of 255 between the darkest and the lightest pixel of a box, below which nothing is printed there."""
_NOISE: Final = 10.5
"""Times the median difference of two neighbours, likewise: ten standard deviations of the noise of a scanner."""
_EVERY: Final = 8
"""Step of the rows of a picture from which its noise is estimated."""
_DARK: Final = 128
_LEAST_INKED: Final = 0.5
"""Share of boxes that must hold ink: an engine makes up a word now and then."""
_BEYOND: Final = 0.01
"""Share of the page by which a box may reach beyond it."""
_EDGE: Final = 32
"""Levels of 255 between two neighbours, from which on one of them is ink."""


def printed(picture: Grey, boxes: Boxes) -> Bools:
    """Words with contrast in their boxes: light on dark is print, white on white and a bar over a word are not.

    Other ink in the box, such as a picture over a hidden word or the edge of a bar that is narrower than the word,
    looks like print.

    Args:
        picture: uint8 (height, width).
        boxes: Left, top, right, bottom of each word as shares of the page.

    Returns:
        bool (words,).
    """
    least = _least(picture)
    return np.array([np.ptp(_part(picture, box)) >= least for box in boxes], dtype=bool)


def _least(picture: Grey) -> float:
    """Contrast of print, over the noise of the paper."""
    steps = np.abs(np.diff(picture[::_EVERY].astype(np.int16), axis=1))
    return max(_CONTRAST, _NOISE * float(np.median(steps))) if steps.size else _CONTRAST


def printed_words(image: PageImage, boxes: Boxes) -> Bools | None:
    """As of ``printed``; None where the picture is blank or cannot be read, and so shows nothing of where words are.

    Args:
        image: The page.
        boxes: As of ``printed``.
    """
    try:
        picture = np.asarray(image.open().convert("L"))
    except UnanswerableError:
        return None
    return printed(picture, boxes) if np.ptp(picture) >= _least(picture) else None


def not_on_ink(found: Bools) -> bool:
    """True if too few of some words are printed where their boxes are."""
    return bool(len(found) and found.mean() < _LEAST_INKED)


def under_bars(picture: Grey, boxes: Boxes) -> Bools:
    """Words without contrast in a dark place: text below a redaction bar is still in the file.

    Args:
        picture: uint8 (height, width).
        boxes: Boxes of words that are not printed, as of ``printed``.

    Returns:
        bool (words,).
    """
    return np.array([_part(picture, box).mean() < _DARK for box in boxes], dtype=bool)


def share_of_ink(picture: Grey, boxes: Boxes) -> float:
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


class Unit(Enum):
    """Unit of boxes that are no shares of the page."""

    UNKNOWN = auto()
    THOUSANDTHS = auto()
    PIXELS = auto()

    def size(self, image: PageImage) -> Floats:
        """Size of the page in this unit, float64 (4,): width, height, width, height."""
        width, height = image.size() if self is Unit.PIXELS else (1000, 1000)
        return np.array([width, height, width, height], dtype=np.float64)


def unit_of(boxes: Floats, image: PageImage) -> Unit | None:
    """The unit in which more boxes lie on the ink of a page; None for neither.

    LayoutLM and its kin take thousandths; OCR engines give pixels, which on a small page look like thousandths.

    Args:
        boxes: float (words, 4), some above 1.
        image: The page; the unit is UNKNOWN if it cannot be read, or is blank.
    """
    try:
        shares = {unit: boxes / unit.size(image) for unit in (Unit.THOUSANDTHS, Unit.PIXELS)}
    except UnanswerableError:
        return Unit.UNKNOWN
    lying = {unit: np.clip(places, 0, 1) for unit, places in shares.items() if not _off_page(places)}
    inked = {unit: printed_words(image, places) for unit, places in lying.items()}
    fitting = {unit: float(seen.mean()) for unit, seen in inked.items() if seen is not None}
    if len(fitting) < len(inked):
        return Unit.UNKNOWN
    best = max(fitting, key=lambda unit: fitting[unit], default=None)
    return best if best is not None and fitting[best] >= _LEAST_INKED else None


def _off_page(shares: Floats) -> bool:
    """True if most boxes reach beyond the page."""
    return bool((shares <= 1 + _BEYOND).all(axis=1).mean() < _LEAST_INKED)


def _part(pixels: NDArray[np.generic], box: Sequence[float] | Floats) -> NDArray[np.generic]:
    """The pixels of a box, at least one."""
    height, width = pixels.shape
    left, top = int(box[0] * (width - 1)), int(box[1] * (height - 1))
    return pixels[top : max(top + 1, round(box[3] * height)), left : max(left + 1, round(box[2] * width))]

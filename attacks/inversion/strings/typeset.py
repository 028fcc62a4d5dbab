"""Words as they are set into a field: fonts, sizes, places, and what they cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.template.template import Window
from pfl_audit.documents.synthetic.canvas import load_font

Cover = NDArray[np.uint8]

FAMILIES = ("DejaVuSans", "DejaVuSansMono", "DejaVuSerif")
"""Fonts that are tried: those in which small print is read."""
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.,-/$@:#&'()+%"
LETTERS = (*ALPHABET, "fi", "fl", "ff")
"""What a line goes on by: a ligature changes the letter before it."""


@dataclass(frozen=True)
class Typeset:
    """How a line is set.

    Attributes:
        family: Font.
        size: Of the font in pixels.
        left: Where the line begins, in pixels from the field's left edge.
        base: Its base line, in pixels from the field's upper edge.
    """

    family: str
    size: int
    left: int
    base: int

    @property
    def reach(self) -> tuple[int, int]:
        """First row and the one past the last that a letter can cover, in pixels of the field."""
        above, below = _reach(self.family, self.size)
        return self.base + above, self.base + below


@lru_cache(maxsize=1 << 16)
def advance(family: str, size: int, text: str) -> float:
    """Length of a text in pixels."""
    return float(load_font(family, size).getlength(text))


@lru_cache(maxsize=1 << 16)
def drawn(family: str, size: int, text: str) -> tuple[Cover, tuple[int, int]]:
    """What a text covers, uint8 (height, width), 255 for a whole pixel; left and top from where it begins."""
    mask, (left, top) = load_font(family, size).getmask2(text, "L", anchor="ls")
    width, height = mask.size
    return np.array(mask, dtype=np.uint8).reshape(height, width), (int(left), int(top))


def put(cover: Cover, text: str, typeset: Typeset, at: int, window: Window) -> None:
    """Draw a word into a picture of what is covered, in place; what leaves the field is cut off.

    Args:
        cover: uint8 (height, width).
        at: Where the word begins, in pixels from the field's left edge.
        window: Left, top, right, bottom of the field in the picture.
    """
    shape, (left, top) = drawn(typeset.family, typeset.size, text)
    x, y = window[0] + at + left, window[1] + typeset.base + top
    low, high = max(0, window[0] - x), max(0, window[1] - y)
    there = cover[y + high : min(window[3], y + len(shape)), x + low : min(window[2], x + shape.shape[1])]
    part = shape[high : high + there.shape[0], low : low + there.shape[1]]
    np.maximum(there, part, out=there)


def typesets(height: int, families: Sequence[str] = FAMILIES, sizes: Sequence[int] = ()) -> list[Typeset]:
    """Ways to set a line into a field.

    Args:
        height: Of the field in pixels.
        families: Fonts that are tried.
        sizes: Sizes of the font that are tried; all that fit the field if none are given.
    """
    fitting = [size for size in range(_LEAST_SIZE, height) if size * _LINE <= height]
    found = []
    for family in families:
        for size in sizes or fitting[-_SIZES:]:
            above, below = _reach(family, size)
            middle = (height - above - below) / 2
            bases = [base for base in range(height) if abs(base - middle) <= _OFF]
            found += [Typeset(family, size, left, base) for left in range(_LEFTS) for base in bases]
    return found


_LEAST_SIZE = 6
_LINE = 1.2
_SIZES = 5
_OFF = 3
"""Pixels that a line may be above or below the middle of its field."""
_LEFTS = 6
"""Pixels from the left edge of a field where a line may begin."""


@lru_cache(maxsize=1024)
def _reach(family: str, size: int) -> tuple[int, int]:
    _, top, _, bottom = load_font(family, size).getbbox(ALPHABET, anchor="ls")
    return int(top), int(bottom)

"""Blank places of a form without marked fields: empty frames, and empty lines beside something printed.

An empty frame is a connected patch of paper that fills its own rectangle. An empty line is a rule, drawn or dotted,
with paper above it and print to its left, or, as under a signature, right below it.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray

from pfl_audit.documents.images import Box
from pfl_audit.metrics.arrays import Bools

_Frame = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels."""

_CONTRAST = 40
"""Grey levels from the paper's, above which a pixel is ink."""
_MIN_WIDTH, _MIN_HEIGHT = 0.05, 0.012
"""Of a blank place, as shares of the page; checkboxes and the holes of letters are below it."""
_MIN_PIXELS = (14, 7)
_MAX_AREA = 0.4
_FILLED = 0.98
"""Share of its rectangle that an empty frame's paper covers: its corners may be round, nothing is printed in it."""
_RULE_WIDTH = 0.85
"""A rule this wide divides the page; it is no place to write."""
_LINE_HEIGHT = 0.075
"""Most of the page's height that is written in above a rule."""
_DOTS = 7
"""Pixels between the dots of a dotted rule that are taken for part of it."""


def find_boxes(pixels: NDArray[np.uint8]) -> tuple[Box, ...]:
    """Look for blank places.

    Args:
        pixels: uint8 (height, width, 3).

    Returns:
        Boxes as shares of the page that fall on whole pixels, in reading order; none overlaps another. The same
        picture gives the same boxes.
    """
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    paper = int(np.bincount(grey.ravel(), minlength=256).argmax())
    ink = np.abs(grey.astype(np.int16) - paper) > _CONTRAST
    found = _frames(ink)
    for line in _lines(ink):
        if not any(overlap(line, other) for other in found):
            found.append(line)
    ordered = (found[at] for at in reading_order(found))
    return tuple((left / width, top / height, right / width, bottom / height) for left, top, right, bottom in ordered)


def reading_order(boxes: Sequence[Box]) -> list[int]:
    """Numbers of boxes in rows from top to bottom, each row from left to right.

    A box is in a row if its middle is above the bottom of the row's first box.
    """
    rows: list[list[int]] = []
    for at in sorted(range(len(boxes)), key=lambda at: (boxes[at][1] + boxes[at][3], boxes[at][0])):
        if rows and boxes[at][1] + boxes[at][3] < 2 * boxes[rows[-1][0]][3]:
            rows[-1].append(at)
        else:
            rows.append([at])
    return [at for row in rows for at in sorted(row, key=lambda at: boxes[at][0])]


def overlap(one: Box, other: Box) -> bool:
    """True where two boxes (left, top, right, bottom) overlap."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _frames(ink: Bools) -> list[_Frame]:
    """Patches of paper that fill their rectangle."""
    height, width = ink.shape
    most = _MAX_AREA * width * height
    patches = _patches(~ink, 4, width=max(_MIN_PIXELS[0], _MIN_WIDTH * width))
    found = []
    for left, top, wide, high, area in patches:
        inside = left > 0 and top > 0 and left + wide < width and top + high < height
        if inside and _large(wide, high, ink.shape) and _FILLED * wide * high <= area <= most:
            found.append((left, top, left + wide, top + high))
    return found


def _patches(drawn: MatLike | NDArray[np.bool_], connectivity: int, *, width: float) -> list[list[int]]:
    """Left, top, width, height and area of every connected patch that is ``width`` pixels wide or wider.

    A page of noise has millions of smaller ones, which never become lists.
    """
    _, _, stats, _ = cv2.connectedComponentsWithStats(drawn.astype(np.uint8), connectivity=connectivity)
    return stats[1:][stats[1:, 2] >= width].tolist()


def _lines(ink: Bools) -> list[_Frame]:
    """The paper above rules that have something printed beside them."""
    height, width = ink.shape
    least = max(_MIN_PIXELS[0], round(_MIN_WIDTH * width))
    drawn = ink.astype(np.uint8)
    joined = cv2.morphologyEx(drawn, cv2.MORPH_CLOSE, np.ones((1, _DOTS), np.uint8))
    # Print is joined as well, but into blots that are higher than a rule.
    found = []
    for left, top, wide, high, area in _patches(joined, 8, width=least):
        rule = least <= wide <= _RULE_WIDTH * width and high <= max(3, height // 150) and area >= 0.8 * wide * high
        if not rule:
            continue
        blank = _blank_rows(ink[:top, left : left + wide], round(_LINE_HEIGHT * height))
        frame = (left, top - blank, left + wide, top)
        if _large(wide, blank, ink.shape) and _labelled(ink, frame, high):
            found.append(frame)
    return found


def _blank_rows(above: Bools, most: int) -> int:
    """Rows without ink at the bottom of a picture, at most ``most``; the one below the ink is left out."""
    near = above[max(0, len(above) - most - 2) :]
    inked = np.flatnonzero(near[::-1].any(axis=1))
    free = int(inked[0]) - 1 if len(inked) else len(near)
    return max(0, min(free, most))


def _labelled(ink: Bools, frame: _Frame, thickness: int) -> bool:
    """Whether something is printed to the left of a frame, or right below its rule."""
    left, top, right, bottom = frame
    below = bottom + thickness
    beside = ink[top:bottom, max(0, left - ink.shape[1] // 2) : left]
    under = ink[below + 1 : below + 1 + bottom - top, left:right]
    return bool(beside.any() or under.any())


def _large(wide: int, high: int, shape: tuple[int, ...]) -> bool:
    height, width = shape[:2]
    return wide >= max(_MIN_PIXELS[0], _MIN_WIDTH * width) and high >= max(_MIN_PIXELS[1], _MIN_HEIGHT * height)

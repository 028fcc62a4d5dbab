"""Nearness of a line: as it is drawn it lies in the span, and with any other letter in any place it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.strings.field_pixels import Cover, FieldPixels
from pfl_audit.attacks.inversion.strings.line_search import LEVELS, Line
from pfl_audit.attacks.inversion.strings.patch_span import PatchSpan
from pfl_audit.attacks.inversion.strings.typeset import ALPHABET, put
from pfl_audit.metrics.arrays import Floats

RANDOM = 200
"""Random lines of the same length that a line is held against."""
_STATE = 4 * 2.0**-24
"""Relative error of a patch: sums of the network in single precision."""
_TOGETHER = 128


@dataclass(frozen=True)
class Nearness:
    """How far the patches of a line lie outside the span, over what errors explain; the worst of each line.

    Attributes:
        own: Excess of the line; about 1 if it is on the page.
        other: The least of all lines that differ in one letter.
        random: The least of random lines of as many letters.
        ink: Level of its ink, 0 to 255.
    """

    own: float
    other: float
    random: float
    ink: int

    def holds(self, most: float) -> bool:
        """Whether the line is in the span and no other is."""
        return self.own <= most < min(self.other, self.random)


def inked(span: PatchSpan, field: FieldPixels, line: Line) -> tuple[float, int]:
    """The worst excess of a line's patches as they are drawn, at the level of ink that suits it best, and the level."""
    low, high = (round(level * 255) for level in LEVELS)
    levels = np.arange(low, high + 1)
    found = worst_of(span, field, line, np.stack([line.cover] * len(levels)), levels)
    return float(found.min()), int(levels[found.argmin()])


def nearness_of(span: PatchSpan, field: FieldPixels, line: Line, rng: np.random.Generator) -> Nearness:
    """Hold a line against others, with ink and pixels as they are drawn."""
    own, ink = inked(span, field, line)
    texts = [word for word, _ in line.words]
    swapped = (
        [*texts[:number], word[:at] + letter + word[at + 1 :], *texts[number + 1 :]]
        for number, word in enumerate(texts)
        for at in range(len(word))
        for letter in ALPHABET
        if letter != word[at]
    )
    drawn = (["".join(rng.choice(list(ALPHABET), len(word))) for word in texts] for _ in range(RANDOM))
    other, random = (_least(span, field, line, _covers(field, line, lines), ink) for lines in (swapped, drawn))
    return Nearness(own, other, random, ink)


def _covers(field: FieldPixels, line: Line, texts: Iterator[Sequence[str]]) -> list[Cover]:
    """What other words cover in the places of a line's, but for those that cover the same."""
    found = []
    for words in texts:
        cover = field.blank
        for word, (_, at) in zip(words, line.words, strict=True):
            put(cover, word, line.typeset, at, field.window)
        if not np.array_equal(cover, line.cover):
            found.append(cover)
    return found


def _least(span: PatchSpan, field: FieldPixels, line: Line, covers: Sequence[Cover], ink: int) -> float:
    parts = [np.stack(covers[start : start + _TOGETHER]) for start in range(0, len(covers), _TOGETHER)]
    found = (worst_of(span, field, line, part, np.full(len(part), ink)).min() for part in parts)
    return float(min(found, default=np.inf))


def worst_of(span: PatchSpan, field: FieldPixels, line: Line, covers: Cover, ink: NDArray[np.int64]) -> Floats:
    """The largest excess of any patch of each drawing, float64 (n,).

    Args:
        line: How the drawings are set.
        covers: uint8 (n, height, width).
        ink: int (n,), levels of ink.
    """
    vectors, unknown = field.exact(covers, ink), field.unknown(line.typeset, field.size[0])
    worst = np.zeros(len(covers))
    for row, column in np.ndindex(unknown.shape[:2]):
        test = span.test(unknown[row, column])
        if test is None:
            continue
        given = np.where(unknown[row, column], 0.0, vectors[:, row, column])
        left = np.square(given @ test.outside.T).sum(axis=1)
        turned = np.square(given @ test.turned.T).sum(axis=1) + np.square(given).mean(axis=1) * _STATE**2
        worst = np.maximum(worst, np.sqrt(left / (len(test.outside) * turned)))
    return worst

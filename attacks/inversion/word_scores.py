"""Share of a client's words that can be read in the reconstruction.

An engine errs on perfect pages as well. It therefore reads the original too, and two shares are reported: of all words
those that are read exactly (``exact``; the paper's Binary, "text segments that are perfectly reconstructed", section
4.1), and of the words that it reads exactly on the original those that it reads so on the reconstruction too
(``relative``). Words count as often as they are written; their order within a field does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz

from pfl_audit.attacks.inversion.reading import Pixels, ReadingEngine
from pfl_audit.attacks.inversion.template.template import Template

_INK = 48
"""Levels by which a pixel of a filled page differs from its template where something is written."""
_DOT = 0.4
"""Of the tallest line: what is lower is a dot or an accent, and belongs to its neighbour."""
_AIR = 3
"""Pixels above and below a line that are read with it."""


@dataclass(frozen=True)
class FieldReading:
    """One field and what was read in it. Holds personal data.

    Attributes:
        truth: What is written there; what the engine reads on the original where it is unknown.
        original: What the engine reads on the original page.
        read: What it reads on the reconstruction.
    """

    field: str
    truth: str
    original: str
    read: str

    @property
    def words(self) -> int:
        """Words that are written."""
        return len(self.truth.split())

    @property
    def exact(self) -> int:
        """Words that are read exactly on the reconstruction."""
        return _common(self.truth, self.read)

    @property
    def readable(self) -> int:
        """Words that the engine reads exactly on the original."""
        return _common(self.truth, self.original)

    @property
    def both(self) -> int:
        """Words that it reads exactly on both."""
        return _common(self.truth, self.original, self.read)

    @property
    def ratio(self) -> float:
        """Fuzz ratio between what is written and what is read, 0 to 1."""
        return fuzz.ratio(self.truth, self.read) / 100


def read_fields(
    engine: ReadingEngine,
    template: Template,
    original: Pixels,
    reconstruction: Pixels,
    values: Mapping[str, str] | None = None,
) -> list[FieldReading]:
    """Read the private fields of one document, on the original and on the reconstruction.

    Where the lines of a field stand is taken from the original, so that both are read in the same places. Words that
    the empty form has there are not the client's: they are left out of what is read.

    Args:
        original: The client's page, uint8 (height, width, 3).
        reconstruction: What came back, of the same shape.
        values: Field id to what is written there, where it is known.

    Returns:
        One a field that is filled in, in the order of the template.
    """
    found = []
    for field in template.fields:
        left, top, right, bottom = template.window(field)
        changed = np.abs(original[top:bottom, left:right].astype(int) - template.pixels[top:bottom, left:right])
        lines = _lines(np.flatnonzero(changed.max(axis=(1, 2)) > _INK), bottom - top)
        places = [(top + first, top + last) for first, last in lines]
        pages = (original, reconstruction)
        cuts = [page[first:last, left:right] for page in pages for first, last in places]
        printed = [cut for first, last in places if np.ptp(cut := template.pixels[first:last, left:right]) > _INK]
        texts = [" ".join(word.text for word in line) for line in engine.read([*cuts, *printed])]
        form = Counter(" ".join(texts[len(cuts) :]).split())
        before, after = (_without(texts[at : at + len(places)], form) for at in (0, len(places)))
        truth = before if values is None else " ".join(values.get(field.id, "").split())
        if truth:
            found.append(FieldReading(field.id, truth, before, after))
    return found


def _without(lines: Sequence[str], printed: Counter[str]) -> str:
    """The words of lines, without as many of them as are printed."""
    left, words = printed.copy(), list[str]()
    for word in " ".join(lines).split():
        if left[word] > 0:
            left[word] -= 1
        else:
            words.append(word)
    return " ".join(words)


def _lines(rows: NDArray[np.intp], height: int) -> list[tuple[int, int]]:
    """First and last (exclusive) row of each line, from the rows of a field that have ink."""
    runs = [
        (int(run[0]), int(run[-1]) + 1) for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(run)
    ]
    tallest = max((last - first for first, last in runs), default=0)
    lines: list[tuple[int, int]] = []
    for first, last in runs:
        if lines and min(last - first, lines[-1][1] - lines[-1][0]) < _DOT * tallest:
            lines[-1] = (lines[-1][0], last)
        else:
            lines.append((first, last))
    # Air reaches half-way to the next line at most.
    between = [0, *((one[1] + other[0]) // 2 for one, other in pairwise(lines)), height]
    return [
        (max(above, first - _AIR), min(below, last + _AIR))
        for (first, last), (above, below) in zip(lines, pairwise(between), strict=False)
    ]


def _common(*texts: str) -> int:
    """Words that stand in all texts, as often as they stand in each."""
    first, *others = (Counter(text.split()) for text in texts)
    for other in others:
        first &= other
    return first.total()

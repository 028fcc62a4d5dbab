"""Search for the line of text in a field, letter by letter, by the span of the private patches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pfl_audit.attacks.inversion.strings.field_pixels import FieldPixels
from pfl_audit.attacks.inversion.strings.patch_span import PatchSpan, Test
from pfl_audit.attacks.inversion.strings.typeset import LETTERS, Cover, Typeset, advance, put
from pfl_audit.attacks.inversion.template.template import Window
from pfl_audit.metrics.arrays import Floats

LEVELS = (0.0, 0.4)
"""Ink that is tried, 0 to 1."""
_OVERHANG = 1
"""Pixels that the next letter may reach back."""
_GAPS = range(1, 11)
"""Pixels between two words beside their lengths."""
_ROUNDED = 1 / (12 * 255**2)
"""Variance of rounding to 8 bits."""
_LONGEST = 40
_TOGETHER = 200
_LEAST = 1e-300
_FLOOR = 0.5


@dataclass(frozen=True, eq=False)
class LinearTest:
    """Test of a patch as a function of what its pixels are covered by.

    Attributes:
        numbers: Coordinates outside the span.
        plain: float64 (functions,), of the form's patch: coordinates outside, then those that errors turn.
        black: float64 (side * side, functions), what black ink on a pixel changes.
        ink: float64 (side * side, functions), what lighter ink adds.
    """

    numbers: int
    plain: Floats
    black: Floats
    ink: Floats

    @classmethod
    def of(cls, test: Test, field: FieldPixels, row: int, column: int) -> LinearTest:
        """The test of one patch of a field."""
        functions = np.concatenate([test.outside, test.turned])
        return cls(len(test.outside), functions @ field.plain[row, column], *field.changes(functions, row, column))

    def excess(self, shares: Floats, levels: tuple[float, float], blur: float) -> Floats:
        """Excess of patches at the ink that suits each best, float64 (n,).

        Args:
            shares: float64 (n, side * side), how much of each pixel is covered.
            levels: Darkest and lightest ink, 0 to 1.
            blur: Variance of an entry in addition to that of the gradient, such as that of rounding to 8 bits.
        """
        fixed, added = self.plain + shares @ self.black, shares @ self.ink
        outside, more = fixed[:, : self.numbers], added[:, : self.numbers]
        size = np.maximum(np.square(more).sum(axis=1), _LEAST)
        level = np.clip(-(outside * more).sum(axis=1) / size, *levels)[:, None]
        found = np.square(fixed + level * added)
        left, turned = found[:, : self.numbers].sum(axis=1), found[:, self.numbers :].sum(axis=1)
        return np.asarray(np.sqrt(left / (self.numbers * (turned + blur))))


@dataclass(frozen=True, eq=False)
class Line:
    """The beginning of a line.

    Attributes:
        words: Words and where they begin, in pixels from the field's left edge; the last may go on.
        cover: What they cover, uint8 (height, width) of the field's patches.
        before: The same without the last word.
        pen: Where the next letter begins.
        worst: Largest excess of a patch that it covers.
    """

    typeset: Typeset
    words: tuple[tuple[str, int], ...]
    cover: Cover
    before: Cover
    pen: float
    worst: float = 0.0
    sum: float = 0.0

    @property
    def text(self) -> str:
        """Words divided by blanks."""
        return " ".join(word for word, _ in self.words).strip()

    def with_letter(self, letter: str, window: Window) -> Line:
        """The line with one more letter."""
        word, at = self.words[-1]
        cover = self.before.copy()
        put(cover, word + letter, self.typeset, at, window)
        pen = at + advance(self.typeset.family, self.typeset.size, word + letter)
        return replace(self, words=(*self.words[:-1], (word + letter, at)), cover=cover, pen=pen)

    def with_gap(self, gap: int) -> Line:
        """The line with a new word begun."""
        at = round(self.pen) + gap
        return replace(self, words=(*self.words, ("", at)), before=self.cover, pen=float(at))


def begun(field: FieldPixels, typeset: Typeset) -> Line:
    """A line without letters."""
    return Line(typeset, (("", typeset.left),), field.blank, field.blank, float(typeset.left))


class Judge:
    """Tests lines of a field.

    Args:
        span: The span of the page's private patches.
    """

    def __init__(self, span: PatchSpan, field: FieldPixels) -> None:
        self._span, self._field = span, field
        scale = field.vectors.given
        self._blur = float(np.square(scale.white - scale.black).max()) * _ROUNDED
        self._masks: dict[tuple[tuple[int, int], int], list[list[bytes]]] = {}
        self._linear: dict[tuple[int, int, bytes], LinearTest | None] = {}

    def __call__(self, lines: Sequence[Line], *, ended: bool = False) -> list[Line]:
        """Lines with the excess of the patches that they cover, at the ink that suits each patch best.

        Args:
            ended: Whether nothing follows.
        """
        if not lines:
            return []
        field, side = self._field, self._field.vectors.given.side
        covers = np.stack([line.cover for line in lines])
        rows, columns = field.plain.shape[:2]
        groups: dict[tuple[int, int, bytes], list[int]] = defaultdict(list)
        for number, line in enumerate(lines):
            known = field.size[0] if ended else max(0, round(line.pen) - _OVERHANG)
            masks = self._unknown(line.typeset, known)
            last = columns if ended else min(columns, (field.window[0] + known) // side + 1)
            for row in range(rows):
                for column in range(last):
                    groups[row, column, masks[row][column]].append(number)
        worst, total = np.zeros(len(lines)), np.zeros(len(lines))
        for (row, column, mask), members in groups.items():
            test = self._test(row, column, mask)
            if test is not None:
                found = test.excess(field.shares(covers[members], row, column), LEVELS, self._blur)
                worst[members] = np.maximum(worst[members], found)
                total[members] += test.numbers * np.log(np.maximum(found, _FLOOR))
        sums = zip(lines, worst.tolist(), total.tolist(), strict=True)
        return [replace(line, worst=one, sum=every) for line, one, every in sums]

    def _unknown(self, typeset: Typeset, known: int) -> list[list[bytes]]:
        key = (typeset.reach, known)
        if key not in self._masks:
            found = self._field.unknown(typeset, known)
            self._masks[key] = [[one.tobytes() for one in row] for row in found]
        return self._masks[key]

    def _test(self, row: int, column: int, mask: bytes) -> LinearTest | None:
        key = (row, column, mask)
        if key not in self._linear:
            test = self._span.test(np.frombuffer(mask, dtype=bool))
            self._linear[key] = None if test is None else LinearTest.of(test, self._field, row, column)
        return self._linear[key]


def search(
    span: PatchSpan,
    field: FieldPixels,
    settings: Sequence[Typeset],
    width: int,
    most: float,
    letters: Sequence[str] = LETTERS,
) -> list[Line]:
    """Lines that may be in a field, the likeliest first.

    Args:
        settings: Ways to set the line.
        width: Lines that are continued at each length.
        most: Excess of a patch above which a line is given up.

    Returns:
        Lines that end within the excess, none of which is the beginning of another.
    """
    judge = Judge(span, field)
    beam = [line for line in judge([begun(field, one) for one in settings]) if line.worst <= most]
    passing: list[Line] = []
    for _ in range(_LONGEST):
        longer = []
        for start in range(0, len(beam), _TOGETHER):
            made = _longer(beam[start : start + _TOGETHER], field, letters)
            longer += [line for line in judge(made) if line.worst <= most]
        beam = longer
        beam = sorted(beam, key=lambda line: line.sum)[:width]
        written = [line for line in beam if line.words[-1][0]]
        passing += [line for line in judge(written, ended=True) if line.worst <= most]
        if not beam:
            break
    return sorted(passing, key=lambda line: (-len(line.text), line.sum))


def _longer(lines: Sequence[Line], field: FieldPixels, letters: Sequence[str]) -> list[Line]:
    """Lines with one letter more, or with a new word begun, as far as the field reaches."""
    found = [line.with_letter(letter, field.window) for line in lines for letter in letters]
    found += [line.with_gap(gap) for line in lines if line.words[-1][0] for gap in _GAPS]
    return [line for line in found if line.pen <= field.size[0] + _OVERHANG]

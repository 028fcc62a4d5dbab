"""Numbers of a masked report: steps, bands, and the numbers of its sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from itertools import product
from typing import Final, Literal

from pfl_audit.core.numbers import decimals, number
from pfl_audit.core.schema import Band, Finding, Metric

Bound = Literal["at most", "at least"]
Ends = tuple[float, float]
Coarse = tuple[float | None, Ends | None, Bound | None]
"""A rounded value, None where it is not published, its interval, and what it bounds."""
RATES: Final = ("percent", "points", "decimal")
"""Formats of shares and of differences of them."""
WIDTH: Final = 0.8
"""Least step, in half-widths of an interval; with the next of 1, 2 and 5 it is at most two."""
PSEUDONYM: Final = re.compile(r"(?:provider|document|person|page|form|group) [0-9a-f]{8}\b")
HIDDEN: Final = "not published"
_TENTH: Final = 0.1
"""Least step of a share that no metric states."""
_NUMBER: Final = r"[-+]?\d(?:[\d,]{0,18}\d)?(?:\.\d{1,20}(?:e(?:[-+]?\d{1,2}|-\d{3}))?)?"
_KEPT: Final = (
    PSEUDONYM.pattern, r"(?<!\S)(?=\S*[A-Za-z])\S*/\S*",  # paths
    r"\b[125][0,]* to [149][9,]*\b", r"\b0\.\d to [01]\.\d\b", r"\d+ or more\b", r"fewer than \d+", r"\bs = \d+",
    r"[Vv]ersions? v?\d[\w.+-]*", r"\bv?\d+(?:\.\d+){2,}\S*", r"\b(?:19|20)\d\d(?:(?:-\d\d){1,2}[T\d:.+-]*|(?=[);]))",
    r"\bseeds? \d+(?:(?:, | and | to )\d+)*", r"\d+\^-?\d+", r"(?:epsilon|delta)(?: of| =)? [\d.e+-]+",
    r"\b95 %", r"(?:at (?:least|most)|than the|TPR at|the|surest|AccAt) \d+ %", r"gaps of \d+ points", r"≥ [\d.]+",
    r"[Oo]f 100\b", r"[\d.]+ standard deviations", r"that of one alone [\d.]+", r"AUC of 0\.6 must", r"below [\d.]+",
    r"\d+ (?:seeds|draws|labellings|folds|guesses)", r"(?:adjusted for|within|where it is|largest of) \d+",
    r"Chance is [\d.]+", r"fields of \d+ to \d+ tokens", r"among \d+;", r"\d+ are needed",
   r"\b\de[-+]?\d+", r"more than \d+ questions", r"guessing gives \d+",
)  # fmt: skip
"""Patterns of what is not rounded: bands, and settings, which are not counted among companies."""
_TEXT: Final = re.compile(
    "|".join(f"(?:{one})" for one in _KEPT) + rf"|\bp(?: =)? (?P<p>{_NUMBER}|\d(?:e-\d{{1,3}}))"
    rf"|(?<![\w.\-])(?P<value>{_NUMBER})(?:(?P<unit>(?: [^\d\[\](),;± ]{{1,6}})?)(?: ± {_NUMBER})? "
    rf"\[(?P<low>{_NUMBER})[^,\]]*, (?P<high>{_NUMBER})[^\]]*\]|(?P<behind> %| points)|(?![\w.]\w|\w))"
)
_NEAR_NONE: Final = re.compile(r"fewer than 1(?![\d,])")
_HUNDRED: Final = re.compile(r"[Oo]f 100\b|^(?:fewer than )?\d+ at \d+$")
_SENTENCE: Final = re.compile(r"(?<=[.;:]) ")


def ladder(value: float) -> float:
    """Smallest of 1, 2 and 5 times a power of ten that is not below a number above 0; 0 of 0."""
    if value <= 0:
        return 0.0
    power = math.floor(math.log10(value) + 1e-9)
    return next(float(f"{digit}e{power}") for digit in (1, 2, 5, 10) if digit * 10.0**power >= value * (1 - 1e-9))


def band(count: int, smallest: int) -> Band:
    """Range of a count: below ``smallest``, then from each of 1, 2 and 5 times a power of ten to the next."""
    if count < smallest:
        return Band(low=0, high=smallest - 1)
    above = int(ladder(count + 1))
    below = {1: above // 2, 2: above // 2, 5: above * 2 // 5}[int(str(above)[0])]
    return Band(low=max(below, smallest), high=max(above - 1, smallest))


def to_step(value: float, step: float, to: Callable[[float], int] = round) -> float:
    """A multiple of a step: the nearest, or that below or above (``math.floor``, ``math.ceil``)."""
    return float(f"{to(round(value / step, 9)) * step:.9g}") + 0.0


def coarse_number(value: float, ends: Ends | None, step: float, *, share: bool) -> Coarse:
    """A value rounded to a step, and its interval widened to multiples of it.

    Args:
        value: Exact value.
        ends: Ends of its interval, or None.
        step: Step, above 0.
        share: Whether the value is a share from 0 to 1; one that rounds to none or all becomes a bound.
    """
    near = to_step(value, step)
    if ends is not None:
        ends = to_step(ends[0], step, math.floor), to_step(ends[1], step, math.ceil)
    low, high = ends or (0.0, 1.0)
    if share and near == 0 and low >= 0:
        most = max(high if ends else step, step)
        return most, ends and (low, most), "at most"
    if share and near == 1 and high <= 1:
        least = to_step(min(low if ends else 1 - step, 1 - step), step, math.floor)
        return least, ends and (least, high), "at least"
    return near, ends, None


class CoarseText:
    """Rounds the numbers of a check's sentences, notes and cells.

    A number that repeats a metric is printed as that metric is published. Of metrics that print alike, those of the
    finding's slice come first, then those that are not published, then the coarsest. Every other share is rounded to
    the step of the metric that the finding rests on, and to tenths at least; it is left out where that metric is.

    Args:
        smallest: Fewest units behind a published number.
        metrics: Metrics, exact and published.
        finding: What the finding rests on, or None.

    Attributes:
        hidden: Whether the number that the finding rests on is not published.
    """

    def __init__(
        self, smallest: int, metrics: Iterable[tuple[Metric, Metric]] = (), finding: Finding | None = None
    ) -> None:
        name, about = (finding.metric, finding.slice) if finding else (None, {})
        pairs = sorted(metrics, key=lambda two: (two[0].slice != about, two[1].value is not None, -(two[1].step or 0)))
        self._smallest, self._metrics = smallest, [pair for pair in pairs if pair[0].value is not None]
        heads = [shared for exact, shared in self._metrics if (exact.name, exact.slice) == (name, about)]
        self.hidden = any(head.value is None for head in heads)
        self._step = max([_TENTH, *(head.step for head in heads if head.step and head.format in RATES)])

    def __call__(self, text: str) -> str:
        """A text whose numbers are rounded, except for known settings."""
        return " ".join(self._sentence(part) for part in _SENTENCE.split(text))

    def share(self, value: float) -> float:
        """A number that no interval is given of, to the step; from 1 on to its first digit."""
        return to_step(value, self._step) if abs(value) < 1 else float(f"{value:.1g}")

    def _sentence(self, sentence: str) -> str:
        hundred = _HUNDRED.search(sentence) is not None
        sentence = _NEAR_NONE.sub("0", sentence).replace("more than 99", "100")

        def rounded(found: re.Match[str]) -> str:
            if text := found["p"]:
                return found[0].removesuffix(text) + (HIDDEN if self.hidden else f"{ladder(float(text)):.1g}")
            if (text := found["value"]) is None:
                return found[0]
            ends, unit = filter(None, (found["low"], found["high"])), found["unit"] or found["behind"] or ""
            if found["low"] or unit or "." in text:
                return self._number(text, unit, 100.0 if unit in (" %", " points") else 1.0, *ends)
            count = int(text.replace(",", ""))
            if hundred and count <= 100:
                return self._number(text, "", 100.0).replace("at most", "up to")
            return self._count(count)

        return _TEXT.sub(rounded, sentence)

    def _count(self, count: int) -> str:
        for exact, shared in self._metrics:
            if exact.format == "integer" and exact.value == count >= self._smallest:
                return HIDDEN if shared.value is None else number(shared)
            if exact.n == count and shared.n is not None:
                return str(shared.n)
        return str(band(count, self._smallest))

    def _number(self, text: str, unit: str, size: float, *bounds: str) -> str:
        """A number with its unit, and with its interval where that is given; it is ``size`` times its metric."""
        said = [float(one.replace(",", "")) for one in (text, *bounds)]
        near = 0.5000001 * 10.0 ** -len(text.partition("e")[0].partition(".")[2])
        plus = "+" if text.startswith("+") else ""
        for (exact, shared), factor in product(self._metrics, (size, 100.0)):
            known = (exact.value or 0.0, *(exact.ci or ())) if bounds else (exact.value or 0.0,)
            pairs = zip(known, said, strict=False)
            if len(known) == len(said) and all(abs(factor * one - other) <= near for one, other in pairs):
                coarse = shared.value, shared.ci if bounds else None, shared.bound
                return _printed(coarse, shared.step or 1.0, factor, unit, plus)
        if self.hidden:
            return HIDDEN
        value, *ends = (one / size for one in said)
        if not ends and size == 1.0:
            return f"about {self.share(value):{plus}g}{unit}"
        step = self._step
        if ends:
            step = ladder(WIDTH * (ends[1] - ends[0]) / 2) or ladder(abs(value)) / 10 or 1.0
        both = (ends[0], ends[1]) if ends else None
        coarse = coarse_number(value, both, step, share=size == 100.0 and unit != " points")
        return _printed(coarse, step, size, unit, plus)


def _printed(coarse: Coarse, step: float, size: float, unit: str, plus: str) -> str:
    value, ends, bound = coarse
    if value is None:
        return HIDDEN
    form = f"{plus}.{decimals(size * step)}f"
    interval = f" [{size * ends[0]:{form}}, {size * ends[1]:{form}}]" if ends else ""
    return f"{bound or 'about'} {size * value:{form}}{unit}{interval}"

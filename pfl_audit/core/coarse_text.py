"""Numbers of a masked report: steps, bands, and the same for numbers in sentences."""

from __future__ import annotations

import math
import re
from typing import Final, Literal

from pfl_audit.core.schema import Band

Bound = Literal["at most", "at least"]
Ends = tuple[float, float]
WIDTH: Final = 0.8
"""Least step, in half-widths of an interval; with the next of 1, 2 and 5 it is at most two."""
PSEUDONYM: Final = re.compile(r"(?:provider|document|person|page|form|group) [0-9a-f]{8}\b")
_NUMBER: Final = r"[-+]?\d(?:[\d,]*\d)?(?:\.\d+)?(?:e[-+]?\d+)?"
_KEPT: Final = (
    PSEUDONYM.pattern,
    r"\bs = \d+", r"fewer than \d+", r"more than 99",
    r"more than \d+ questions", r"\d+ % (?=\w|\[|\.)", r"\d+ %", r"≥ [\d.]+", r"[Oo]f 100\b",
    r"[\d.]+ standard deviations", r"that of one alone [\d.]+", r"adjusted for \d+", r"\d+ draws", r"\d+ labellings",
    r"\d+ folds", r"\d+ guesses", r"within \d+", r"epsilon [\d.e+-]+", r"\b(?:19|20)\d\d(?=[);])", r"Chance is [\d.]+",
    r"fields of \d+ to \d+ tokens", r"among \d+;", r"\d+ are needed", r"below [\d.]+", r"AUC of 0\.6 must",
    r"where it is \d+", r"largest of \d+",
)  # fmt: skip
"""Settings in our sentences, which are not counted among companies. Every other number is rounded."""
_TEXT: Final = re.compile(
    "|".join(f"(?:{one})" for one in _KEPT)
    + rf"|(?P<value>(?<![\w.\-]){_NUMBER})(?P<unit>(?: [^\d\[\](),;± ]{{1,6}})?)(?: ± {_NUMBER})? "
    rf"\[(?P<low>{_NUMBER})[^,\]]*, (?P<high>{_NUMBER})[^\]]*\]"
    rf"|\bp(?: =)? (?P<p>{_NUMBER})"
    rf"|(?<![\w.\-])(?P<percent>[-+]?\d+\.\d+)(?= %| points)"
    rf"|(?<![\w.\-])(?P<decimal>[-+]?\d(?:[\d,]*\d)?\.\d+(?:e[-+]?\d+)?)(?!\w)"
    r"|(?<![\w.\-])(?P<count>\d(?:[\d,]*\d)?)(?![\w.]\w|\w)"
)
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


def coarse_number(
    value: float, ends: Ends | None, step: float, *, share: bool
) -> tuple[float, Ends | None, Bound | None]:
    """A value rounded to a step, and its interval widened to multiples of it.

    Args:
        value: Exact value.
        ends: Ends of its interval, or None.
        step: Step, above 0.
        share: Whether the value is a share from 0 to 1; one that rounds to none or all becomes a bound.
    """
    near = _clean(round(value / step) * step)
    if ends is not None:
        ends = _clean(math.floor(ends[0] / step + 1e-9) * step), _clean(math.ceil(ends[1] / step - 1e-9) * step)
    low, high = ends or (0.0, 1.0)
    if share and near == 0 and low >= 0:
        most = max(high if ends else step, step)
        return most, ends and (low, most), "at most"
    if share and near == 1 and high <= 1:
        least = _clean(min(low if ends else 1 - step, 1 - step))
        return least, ends and (least, high), "at least"
    return near, ends, None


def coarse_text(text: str, smallest: int) -> str:
    """A sentence, note or cell whose numbers are rounded, except for known settings."""
    return " ".join(_coarse(part, smallest) for part in _SENTENCE.split(text))


def _coarse(sentence: str, smallest: int) -> str:
    hundred = _HUNDRED.search(sentence) is not None

    def rounded(found: re.Match[str]) -> str:
        if (value := found["value"]) is not None:
            return _interval(value, found["unit"], found["low"], found["high"])
        if (value := found["p"]) is not None:
            return f"{found[0][: -len(value)]}{ladder(float(value)):.1g}"
        if (value := found["percent"]) is not None:
            return _percent(float(value))
        if (value := found["decimal"]) is not None:
            return f"{float(value.replace(',', '')):.1g}"
        if (value := found["count"]) is not None:
            count = int(value.replace(",", ""))
            if hundred and count <= 100:
                return f"fewer than {smallest}" if count < smallest else f"about {max(10, round(count / 10) * 10)}"
            return str(band(count, smallest))
        return found[0]

    return _TEXT.sub(rounded, sentence)


def _interval(value: str, unit: str, low: str, high: str) -> str:
    number, *ends = (float(one.replace(",", "")) for one in (value, low, high))
    step = ladder(WIDTH * (ends[1] - ends[0]) / 2) or ladder(abs(number)) / 10 or 1.0
    digits = max(0, -math.floor(math.log10(step)))
    size = 100 if unit.strip() == "%" else 1
    shown, rounded, bound = coarse_number(
        number / size, (ends[0] / size, ends[1] / size), step / size, share=unit.strip() == "%"
    )
    plus = "+" if value.startswith("+") else ""
    first, last = rounded or (shown, shown)
    form = f"{plus}.{digits}f"
    return f"{bound or 'about'} {size * shown:{form}}{unit} [{size * first:{form}}, {size * last:{form}}]"


def _percent(value: float) -> str:
    """Of a share or a difference in per cent, to the nearest ten."""
    found = round(value / 10) * 10
    if found == 0:
        return "less than 5" if value >= 0 else "about 0"
    return "more than 95" if found == 100 else f"about {found}"


def _clean(value: float) -> float:
    """Without the rest of a product of binary fractions."""
    return float(f"{value:.9g}") + 0.0

"""What to see in a chart, and its numbers in words for those who do not see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pfl_audit.core.results import Curve, Series

_SEE: Final = {
    "roc": "The further up and to the left a line runs, the more of those in training are found before one that was "
    "not is wrongly accused. On the dotted line the attack only guesses. Both axes are logarithmic.",
    "line": "The line is what the attack reaches, the shade its interval.",
    "step": "At the left is what the attacker believes in most, at the right everything.",
    "scatter": "The further apart the two kinds of points, the easier they are to distinguish.",
}
_ALARMS: Final = (0.01, 0.1)
_BELIEVED: Final = (0.05, 1.0)


def what_to_see(curve: Curve) -> str:
    """A sentence for the caption."""
    return _SEE[curve.kind]


def in_words(curve: Curve) -> str:
    """The numbers of a chart, as its text alternative."""
    series = [one for one in curve.series if one.x]
    told = "; ".join(_TOLD[curve.kind](one) for one in series) or "no points"
    return f"{curve.title}: {curve.y_label} against {curve.x_label}. {told}."


def _roc(series: Series) -> str:
    found = [(limit, max((y for x, y in _points(series) if x <= limit), default=0.0)) for limit in _ALARMS]
    return f"{series.name}: " + ", ".join(f"{y:.0%} at {limit:.0%} false alarms" for limit, y in found)


def _line(series: Series) -> str:
    ends = dict.fromkeys((0, len(series.x) - 1))
    return f"{series.name}: " + ", ".join(f"{series.y[place]:.3g} at {series.x[place]:.4g}" for place in ends)


def _step(series: Series) -> str:
    found = [(share, next((y for x, y in _points(series) if x >= share), series.y[-1])) for share in _BELIEVED]
    return f"{series.name}: " + ", ".join(f"{y:.0%} of the first {share:.0%}" for share, y in found)


def _scatter(series: Series) -> str:
    return f"{series.name}: {len(series.x)} points, mean {_mean(series.x):.3g} and {_mean(series.y):.3g}"


def _points(series: Series) -> Iterator[tuple[float, float]]:
    return zip(series.x, series.y, strict=True)


def _mean(values: Sequence[float]) -> float:
    return sum(value / len(values) for value in values)


_TOLD: Final = {"roc": _roc, "line": _line, "step": _step, "scatter": _scatter}

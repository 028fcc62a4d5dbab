"""Change of a finding between two audits, with its interval.

Source of the interval: Zou and Donner 2008 (MOVER), which recovers it from the intervals of both numbers. It takes the
two as independent. Numbers on the same documents tend to rise and fall together; the interval is then too wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from typing import Final, Literal

from pfl_audit.core.numbers import headline, in_format
from pfl_audit.core.results import Check, Format, Metric

Direction = Literal["worse", "better", "unclear"]
_RANK: Final = {"none": 0, "unresolved": 0, "weak": 1, "leak": 2}


@dataclass(frozen=True)
class Change:
    """Change against the first audit.

    Attributes:
        direction: ``worse`` or ``better`` where the interval leaves zero out, or where there is no number and the level
            changed; else ``unclear``.
        number: Formatted change, or nothing.
        interval: Formatted interval in brackets, or nothing.
        note: Metric of the number where the later finding rests on another, or why there is no number, or nothing.
        steps: Change of the level, from 0 (none, unresolved) to 2 (leak).
        size: Change in half-widths of its interval; positive where more leaks.
    """

    direction: Direction
    number: str = ""
    interval: str = ""
    note: str = ""
    steps: int = 0
    size: float = 0.0


def change_of(before: Check | None, after: Check | None) -> Change | None:
    """Change of a check's finding; None where one of the audits has none.

    Every number that a finding rests on is larger where more leaks.
    """
    if before is None or after is None or before.finding is None or after.finding is None:
        return None
    pair = _same_metric(before, after)
    steps = _RANK[after.finding.level] - _RANK[before.finding.level]
    if pair is None:
        note = "they rest on different metrics, so the levels alone are compared"
        return Change("worse" if steps > 0 else "better" if steps < 0 else "unclear", note=note, steps=steps)
    (old, old_ends), (new, new_ends) = pair
    value = new - old
    low = value - hypot(new - new_ends[0], old_ends[1] - old)
    high = value + hypot(new_ends[1] - new, old - old_ends[0])
    form = _shared_format(before)
    return Change(
        direction="worse" if low > 0 else "better" if high < 0 else "unclear",
        number=_signed(value, form),
        interval=f"[{_signed(low, form, bare=True)}, {_signed(high, form, bare=True)}]",
        note=f"in {before.finding.metric}" if before.finding.metric != after.finding.metric else "",
        steps=steps,
        size=2 * value / (high - low) if high > low else value,
    )


Bounded = tuple[float, tuple[float, float]]


def _same_metric(before: Check, after: Check) -> tuple[Bounded, Bounded] | None:
    """The metric that the earlier finding rests on, in both audits, with its intervals."""
    old = headline(before)
    if old is None:
        return None
    new = next((one for one in after.metrics if (one.name, one.slice) == (old.name, old.slice)), None)
    pair = _bounded(old), _bounded(new)
    if new is None or old.format != new.format or pair[0] is None or pair[1] is None:
        return None
    return pair[0], pair[1]


def _bounded(metric: Metric | None) -> Bounded | None:
    return None if metric is None or metric.value is None or metric.ci is None else (metric.value, metric.ci)


def _shared_format(check: Check) -> Format:
    metric = headline(check)
    return metric.format if metric is not None else "number"


def _signed(value: float, form: Format, *, bare: bool = False) -> str:
    if form in ("percent", "points"):
        return in_format(value, "points", bare=bare)
    if form == "bits":
        return in_format(value, form, bare=bare)
    return ("+" if value >= 0 else "-") + in_format(abs(value), form, bare=bare)

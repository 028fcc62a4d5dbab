"""Change of a finding between two audits, with its interval.

Paired where both audits kept their resamples and drew the same providers: the percentile interval of the difference,
resample by resample. Else unpaired: Zou and Donner 2008 (MOVER), which recovers the interval from those of both numbers
and takes the two as independent. Numbers on the same documents tend to rise and fall together; that interval is then
too wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from typing import Final, Literal

from pfl_audit.core.numbers import headline, in_format
from pfl_audit.core.resamples import Resamples
from pfl_audit.core.results import Check, Format, Metric
from pfl_audit.metrics.intervals import Estimate, estimate

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
        paired: Whether the interval is that of the paired difference.
        note: Metric of the number where the later finding rests on another, or why there is no number, or nothing.
        steps: Change of the level, from 0 (none, unresolved) to 2 (leak).
        size: Change in half-widths of its interval; positive where more leaks.
    """

    direction: Direction
    number: str = ""
    interval: str = ""
    note: str = ""
    paired: bool = False
    steps: int = 0
    size: float = 0.0


def change_of(
    before: Check | None, after: Check | None, drawn: tuple[Resamples, Resamples] | None = None
) -> Change | None:
    """Change of a check's finding; None where one of the audits has none.

    Every number that a finding rests on is larger where more leaks.

    Args:
        before: Check of the first audit.
        after: The same check of another audit.
        drawn: Resamples of both, where they draw the same providers.
    """
    if before is None or after is None or before.finding is None or after.finding is None:
        return None
    pair = _same_metric(before, after)
    steps = _RANK[after.finding.level] - _RANK[before.finding.level]
    if isinstance(pair, str):
        note = f"{pair}, so the levels alone are compared"
        return Change("worse" if steps > 0 else "better" if steps < 0 else "unclear", note=note, steps=steps)
    old, new = pair
    value, low, high = _unpaired(old, new)
    difference = _paired(before, after, old, new, drawn)
    if difference is not None:
        value, low, high = difference.value, difference.low, difference.high
    form = old.format
    return Change(
        direction="worse" if low > 0 else "better" if high < 0 else "unclear",
        number=_signed(value, form),
        interval=f"[{_signed(low, form, bare=True)}, {_signed(high, form, bare=True)}]",
        paired=difference is not None,
        note=f"in {before.finding.metric}" if before.finding.metric != after.finding.metric else "",
        steps=steps,
        size=2 * value / (high - low) if high > low else value,
    )


def _same_metric(before: Check, after: Check) -> tuple[Metric, Metric] | str:
    """The metric that the earlier finding rests on, in both audits; or why there is no such pair of intervals."""
    old = headline(before)
    if old is None:
        return "the earlier finding rests on no number"
    new = next((one for one in after.metrics if (one.name, one.slice) == (old.name, old.slice)), None)
    if new is None or old.format != new.format:
        attacks = new is None and "attack" in old.slice and any(one.name == old.name for one in after.metrics)
        return f"they rest on different {'attacks' if attacks else 'metrics'}"
    if None in (old.value, old.ci, new.value, new.ci):
        return "a number has no interval"
    return old, new


def _unpaired(old: Metric, new: Metric) -> tuple[float, float, float]:
    """Change with its interval, the two audits taken as independent."""
    (a, (a_low, a_high)), (b, (b_low, b_high)) = _bounded(old), _bounded(new)
    return b - a, b - a - hypot(b - b_low, a_high - a), b - a + hypot(b_high - b, a - a_low)


def _paired(
    before: Check, after: Check, old: Metric, new: Metric, drawn: tuple[Resamples, Resamples] | None
) -> Estimate | None:
    """Difference resample by resample; None where one audit kept none, or where they do not spread."""
    if drawn is None or old.n != new.n:
        return None
    ours, theirs = drawn[0].of(before, old), drawn[1].of(after, new)
    if ours is None or theirs is None:
        return None
    found = estimate(_bounded(new)[0] - _bounded(old)[0], theirs - ours)
    return found if found.high > found.low else None


def _bounded(metric: Metric) -> tuple[float, tuple[float, float]]:
    if metric.value is None or metric.ci is None:
        raise ValueError("a change needs a value with its interval")
    return metric.value, metric.ci


def _signed(value: float, form: Format, *, bare: bool = False) -> str:
    if form in ("percent", "points"):
        return in_format(value, "points", bare=bare)
    if form == "bits":
        return in_format(value, form, bare=bare)
    return ("+" if value >= 0 else "-") + in_format(abs(value), form, bare=bare)

"""Axes of a drawing: where a value lies, and which values get a tick."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_TICKS: Final = 5
_MANTISSAS: Final = (1, 3)
_HUGE: Final = 1e6


@dataclass(frozen=True)
class Axis:
    """An axis between two coordinates.

    Attributes:
        low: Value at the coordinate ``start``.
        high: Value at the coordinate ``end``.
        ticks: Values with a tick, and their labels.
        log: Whether it is logarithmic.
    """

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def at(self, value: float) -> float:
        """Coordinate of a value; one beyond the ends is drawn at the end."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def linear(values: Sequence[float], start: float, end: float, *, percent: bool) -> Axis:
    """A linear axis that holds all values, with about five round ticks, whole ones for whole values."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if high - low < 1e-12 * max(1.0, abs(high)):
        low, high = low - max(0.5, abs(low) / 2), high + max(0.5, abs(high) / 2)
    step = _round_step((high - low) / _TICKS)
    if not percent and all(float(value).is_integer() for value in values):
        step = max(1.0, step)
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = [place * step for place in range(first, last + 1)]
    return Axis(ticks[0], ticks[-1], start, end, tuple((tick, _label(tick, percent=percent)) for tick in ticks))


def logarithmic(least: float, start: float, end: float) -> Axis:
    """A logarithmic axis of shares, from ``least`` to 1."""
    decades = range(math.floor(math.log10(least)), 1)
    ticks = [one * 10.0**decade for decade in decades for one in _MANTISSAS if least <= one * 10.0**decade <= 1.0001]
    if len(ticks) > _TICKS + 2:
        ticks = [10.0**decade for decade in decades if 10.0**decade >= least]
    return Axis(least, 1.0, start, end, tuple((tick, f"{100 * tick:g} %") for tick in ticks), log=True)


def _round_step(step: float) -> float:
    """The next larger of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(one * power for one in (1, 2, 5, 10) if one * power >= step * 0.999)


def _label(value: float, *, percent: bool) -> str:
    if percent:
        return f"{100 * value:.3g} %"
    return f"{value:.3g}" if abs(value) < _HUGE else f"{value:.1e}"

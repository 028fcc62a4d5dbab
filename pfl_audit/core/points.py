"""Points of a curve, thinned to those that a drawing can show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pfl_audit.metrics.arrays import Floats

_LEAST: Final = 1e-6
"""Shares below are at the end of a logarithmic axis."""
_DIGITS: Final = 6
"""Significant digits of a point of a thinned curve."""


def shown_places(x: Sequence[float], y: Sequence[float], most: int, *, log: bool) -> list[int]:
    """Places of at most ``most`` points, evenly along the line as it is drawn, the first and the last among them.

    A point that is left out lies within a step of one that is kept: 1 / (``most`` - 2) of the length of the line, in
    units of the axes. A line that only rises or falls is two such units long at most, and so the step of 250 points is
    0.8 % of an axis.

    Args:
        x: Finite.
        y: Finite, of the same length.
        most: Three at least.
        log: Whether both axes are logarithmic.
    """
    if len(x) <= most:
        return list(range(len(x)))
    steps = sum(np.abs(np.diff(_drawn(np.array(part, dtype=np.float64), log=log))) for part in (x, y))
    along = np.append(0.0, np.cumsum(steps))
    cells = np.floor(along / max(along[-1], _LEAST) * (most - 2))
    first = np.flatnonzero(np.diff(cells[:-1], prepend=-1.0))
    return [*map(int, first), len(x) - 1]


def rounded(value: float) -> float:
    """A coordinate with as many digits as a drawing needs."""
    return float(f"{value:.{_DIGITS}g}")


def _drawn(values: Floats, *, log: bool) -> Floats:
    """Shares of the axis, 0 to 1."""
    if log:
        values = np.log(np.maximum(values, min(0.01, values[values > _LEAST].min(initial=0.01)) / 1.5))
    values = values / max(1.0, float(np.abs(values).max()))  # so that no difference is beyond a float
    shares: Floats = (values - values.min()) / max(float(np.ptp(values)), float(np.finfo(np.float64).tiny))
    return shares

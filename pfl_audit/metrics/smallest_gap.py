"""Smallest gap between members and non-members that a permutation test finds, by simulated audits.

A formula for means fails where all scores are 0, and have no variance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pfl_audit.metrics.arrays import Bools, Floats, by_rows, permuted_rows
from pfl_audit.metrics.power import POWER

AUDITS = 200
POWER_PERMUTATIONS = 500
_STEPS = 200
"""Shares of members that are tried, evenly between 0 and 1."""
_AT_ONCE = 50
"""Audits that are held at once."""
_UNITS = 10_000
"""Units for which chance is drawn at once."""


def smallest_gap(
    sums: Floats,
    counts: Floats,
    labels: Bools,
    alpha: float,
    critical: float,
    rng: np.random.Generator,
    power: float = POWER,
) -> float | None:
    """Smallest true gap that a permutation test finds with probability ``power``.

    Audits are drawn: the pages go to members and non-members at random, then a share of the members gives the value
    away on every page. The gap that this makes is the share times what was not right before.

    Args:
        sums: Sum of the scores (0 to 1) of each unit, float (n,).
        counts: Pages of each unit, float (n,).
        labels: bool (n,), membership; both classes.
        critical: Standardised gap that the choice among several measures asks for besides.

    Returns:
        The gap; None where even memory of all members would not be found.
    """
    order = np.tile(np.arange(len(labels), dtype=np.int32), (AUDITS, 1))
    order = rng.permuted(order, axis=1, out=order).T
    drawn = permuted_rows(labels, rng, max(POWER_PERMUTATIONS, int(4 / alpha)))
    known = _first_steps(labels, rng)

    def gaps_of(step: int, start: int) -> Floats:
        some = order[:, start : start + _AT_ONCE]
        pages = counts[some]
        planted = np.where(known[:, start : start + _AT_ONCE] <= step, pages, sums[some])

        def gaps(rows: Bools) -> Floats:
            return _gaps(rows.astype(np.float64), planted, pages)

        return by_rows(gaps, drawn)

    def found(step: int) -> bool:
        gaps = np.concatenate([gaps_of(step, start) for start in range(0, AUDITS, _AT_ONCE)], axis=1)
        beyond = (1.0 + (gaps[1:] >= gaps[0] - 1e-9).sum(axis=0)) / len(gaps) <= alpha
        return float((beyond & (gaps[0] >= critical * gaps[1:].std(axis=0) - 1e-9)).mean()) >= power

    low, high = 0, _STEPS
    if not found(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high / _STEPS * (1.0 - float(sums.sum() / counts.sum()))


def _first_steps(labels: Bools, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Least share, in steps, with which a unit gives its value away in each audit, (n, AUDITS); others never do."""
    steps = np.arange(_STEPS + 1) / _STEPS
    first = np.empty((len(labels), AUDITS), dtype=np.uint8)
    for start in range(0, len(labels), _UNITS):
        part = slice(start, start + _UNITS)
        first[part] = np.searchsorted(steps, rng.random((len(labels[part]), AUDITS)), side="right")
    first[~labels] = _STEPS + 1
    return first


def _gaps(weights: Floats, sums: Floats, counts: Floats) -> Floats:
    """Difference of means for every row of labels and every audit, float (rows, audits); 0 without a class."""
    others = 1.0 - weights
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps: Floats = np.nan_to_num(weights @ sums / (weights @ counts) - others @ sums / (others @ counts))
    return gaps

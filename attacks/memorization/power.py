"""Power of the test on answers: memorization is planted into the audit's own pages, with the labels shuffled.

A formula for means fails here, since a model that gives nothing back has scores without any spread.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pfl_audit.metrics.power import POWER

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

AUDITS = 200
PERMUTATIONS = 500
_STEPS = 200
"""Shares of members that are tried, evenly between 0 and 1."""


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
        sums: Sum of the scores (0 to 1) of each provider, float (n,).
        counts: Pages of each provider, float (n,).
        labels: bool (n,), membership; both classes.
        critical: Standardised gap that the choice among several measures asks for besides.

    Returns:
        The gap; None where even memory of all members would not be found.
    """
    order = rng.permuted(np.tile(np.arange(len(labels)), (AUDITS, 1)), axis=1).T
    drawn = rng.permuted(np.tile(labels, (max(PERMUTATIONS, int(4 / alpha)), 1)), axis=1)
    known = rng.random(order.shape)
    known[~labels] = 2.0
    weights = np.vstack([labels, drawn]).astype(np.float64)

    def found(step: int) -> bool:
        planted = np.where(known < step / _STEPS, counts[order], sums[order])
        gaps = _gaps(weights, planted, counts[order])
        beyond = (1.0 + (gaps[1:] >= gaps[0] - 1e-9).sum(axis=0)) / len(gaps) <= alpha
        return float((beyond & (gaps[0] >= critical * gaps[1:].std(axis=0) - 1e-9)).mean()) >= power

    low, high = 0, _STEPS
    if not found(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high / _STEPS * (1.0 - float(sums.sum() / counts.sum()))


def _gaps(weights: Floats, sums: Floats, counts: Floats) -> Floats:
    """Difference of means for every row of labels and every audit, float (rows, audits); 0 without a class."""
    others = 1.0 - weights
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps: Floats = np.nan_to_num(weights @ sums / (weights @ counts) - others @ sums / (others @ counts))
    return gaps

"""Permutation test of a trend: whether scores of units rise with a dose."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations as every_order
from typing import Final

import numpy as np
from scipy.stats import rankdata

from pfl_audit.metrics.arrays import Floats, permuted_rows
from pfl_audit.metrics.permutation import PERMUTATIONS

_EXACT: Final = 8
"""Units up to which every order is counted: 40,320 at most."""


@dataclass(frozen=True)
class Trend:
    """Rank correlation (Spearman) of doses and scores, and its permutation test.

    Attributes:
        correlation: -1 to 1; NaN where all doses or all scores are equal.
        p_value: One-sided: the share of permutations with a correlation at least as large.
        units: Number of units.
    """

    correlation: float
    p_value: float
    units: int


def trend(doses: Floats, scores: Floats, rng: np.random.Generator, permutations: int = PERMUTATIONS) -> Trend:
    """Test whether scores rise with a dose, by permutations of the doses over units.

    Args:
        doses: Dose of each unit, float (n,), one unit at least.
        scores: Score of each unit, float (n,).
        permutations: Number of permutations; of up to eight units every one.
    """
    count = len(doses)
    ranks, others = (rankdata(part) - (count + 1) / 2 for part in (doses, scores))
    deviation = float(np.sqrt((ranks @ ranks) * (others @ others)))
    if deviation == 0.0:
        return Trend(float("nan"), 1.0, count)
    if count <= _EXACT:
        drawn = ranks[np.array(list(every_order(range(count))))]  # the first is the data
    else:
        drawn = permuted_rows(ranks, rng, permutations)
    sums = drawn @ others
    return Trend(float(sums[0]) / deviation, float((sums >= sums[0] - 1e-9).mean()), count)

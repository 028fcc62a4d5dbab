"""Permutation tests of the labels of members and non-members.

Valid where every arrangement of the labels is equally likely without a leak. An attacker who was given the labels of
some providers does not change that: given these, every arrangement of the others is equally likely, so the labels of
the attacked providers alone are permuted, and nothing has to be learnt again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pfl_audit.metrics.arrays import Bools, Floats, by_rows, permuted_rows

PERMUTATIONS = 4000
_TINY = 1e-12


@dataclass(frozen=True)
class Permuted:
    """A permutation test of several statistics at once, by the largest of them (max-T).

    Attributes:
        gaps: Mean of members minus mean of non-members, float (k,).
        scaled: These in their deviations from what chance gives on average, float (k,).
        centres: Mean of the gaps without an effect, float (k,); not zero where arrangements are unequally likely.
        deviations: Standard deviation of the gaps under permutation, float (k,).
        p_values: One-sided, adjusted for the choice among the statistics, float (k,); at least 1 / (permutations + 1).
        largest: Largest standardised gap of every permutation, float (permutations,).
    """

    gaps: Floats
    scaled: Floats
    centres: Floats
    deviations: Floats
    p_values: Floats
    largest: Floats

    def critical(self, alpha: float) -> Floats:
        """The gap above which each statistic is significant at ``alpha``, float (k,)."""
        return self.centres + np.quantile(self.largest, 1 - alpha) * self.deviations


def permute(values: Floats, labels: Bools, rng: np.random.Generator, permutations: int = PERMUTATIONS) -> Permuted:
    """Permute labels over units, and compare each statistic with the largest that chance gives any of them.

    With calls as values a gap orders like balanced accuracy, with ranks like AUC. Source of max-T: Westfall and Young
    (1993), single step.

    Args:
        values: float (k, n), finite; a row a statistic. A row without spread is never significant.
        labels: bool (n,), membership; both classes.
        permutations: Number of permutations.
    """
    return standardised(by_rows(lambda rows: _gaps(values, rows), permuted_rows(labels, rng, permutations)))


def compare(values: Floats, labellings: Bools) -> Permuted:
    """Permutation test of several statistics under arrangements that are given.

    Args:
        values: float (k, n), as of ``permute``.
        labellings: bool (1 + permutations, n), the data in the first row; both classes in each.
    """
    gaps = by_rows(lambda rows: _gaps(values, rows), labellings)
    return standardised(gaps, gaps[1:].mean(axis=0))


def standardised(gaps: Floats, centres: Floats | None = None) -> Permuted:
    """Compare what is observed with permutations of it, every statistic in units of its own deviation.

    Args:
        gaps: How far each statistic lies above chance, float (1 + permutations, k), finite; the data in the first row.
        centres: Their means without an effect, float (k,); zeros if None.
    """
    centres, deviations = np.zeros(gaps.shape[1]) if centres is None else centres, gaps[1:].std(axis=0)
    scaled = np.where(deviations > _TINY, (gaps - centres) / np.maximum(deviations, _TINY), 0.0)
    largest = scaled[1:].max(axis=1)
    reached = (largest[:, None] >= scaled[0] - 1e-9).sum(axis=0)
    return Permuted(gaps[0], scaled[0], centres, deviations, (1.0 + reached) / len(gaps), largest)


def _gaps(values: Floats, labels: Bools) -> Floats:
    """Mean of members minus mean of the others for every row of ``labels``, float (rows, k)."""
    ones = labels.astype(np.float64)
    members = ones @ values.T / ones.sum(axis=1, keepdims=True)
    others = (1.0 - ones) @ values.T / (1.0 - ones).sum(axis=1, keepdims=True)
    return members - others


def sign_flip(differences: Sequence[int]) -> float:
    """One-sided p-value of the sum of differences: the share of all signs that give a sum at least as large.

    Args:
        differences: Difference of each unit, whole numbers; zeros do not count.

    Returns:
        Above 0, at most 1; 1 without a unit that differs.
    """
    sizes = [abs(difference) for difference in differences if difference]
    chances = np.ones(1)
    for size in sizes:
        flipped = np.zeros(len(chances) + size)
        flipped[: len(chances)] += chances / 2
        flipped[size:] += chances / 2
        chances = flipped
    positive = sum(difference for difference in differences if difference > 0)
    return float(min(1.0, chances[positive:].sum()))

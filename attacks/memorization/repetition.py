"""Memorization by how often a value stands in the training pages: groups of members, and the trend.

Repeated values are memorised more often than others (Carlini et al. 2023, *Quantifying Memorization Across Neural
Language Models*, section 3.2), and a mean over all members dilutes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations as arrangements
from typing import Final

import numpy as np
from scipy.stats import rankdata

from pfl_audit.metrics.arrays import Bools, Floats, Integers, permuted_rows
from pfl_audit.metrics.permutation import PERMUTATIONS

STARTS: Final = (0, 1, 2, 5, 20)
"""Fewest training pages of each group."""
FEWEST: Final = 5
"""Units below which a group joins the one below it: its number would tell what the model knows of a single company."""
_EXACT: Final = 8
"""Units up to which the trend test goes through all orders, 40,320 at most."""


@dataclass(frozen=True)
class Range:
    """A range of numbers of training pages.

    Attributes:
        start: The smallest one.
        stop: The smallest one above it, or None.
    """

    start: int
    stop: int | None

    def __str__(self) -> str:
        """Return the range in words, such as "5 to 19"."""
        if self.stop is None:
            return f"{self.start} or more"
        return str(self.start) if self.stop == self.start + 1 else f"{self.start} to {self.stop - 1}"


@dataclass(frozen=True)
class Trend:
    """Rank correlation (Spearman) of the number of training pages and the score, over members.

    Attributes:
        correlation: -1 to 1; NaN where all numbers or all scores are equal.
        p_value: One-sided, of the permutation test.
        units: Number of members.
    """

    correlation: float
    p_value: float
    units: int


def groups_of(held: Floats, labels: Bools) -> tuple[tuple[Range, ...], Integers]:
    """Groups of members by the number of training pages, those with fewest first.

    A group of fewer than FEWEST units joins the one below it, so that no number is about a few units, nor follows from
    those of the others.

    Args:
        held: Number of training pages that hold the value of each unit, float (n,); NaN where it is not known.
        labels: bool (n,), membership.

    Returns:
        Range of each group, none where the number is not known of all members, or of fewer than FEWEST; and the group
        of each unit, int (n,), from 1 on, with 0 for non-members.
    """
    if labels.sum() < FEWEST or np.isnan(held[labels]).any():
        return (), labels.astype(np.int64)
    starts = list(STARTS)
    while True:
        sizes = np.histogram(held[labels], [*starts, np.inf])[0]
        small = np.flatnonzero((sizes > 0) & (sizes < FEWEST))
        if not len(small):
            break
        del starts[max(1, int(small[0]))]
    kept = np.flatnonzero(sizes)
    found = tuple(Range(starts[at], starts[at + 1] if at + 1 < len(starts) else None) for at in kept)
    roles = np.searchsorted([one.start for one in found], held, side="right")
    return found, np.where(labels, roles, 0)


def trend(
    held: Floats, scores: Floats, labels: Bools, rng: np.random.Generator, permutations: int = PERMUTATIONS
) -> Trend | None:
    """Test whether scores of members rise with the number of training pages that hold their value.

    Exact up to eight members. Units are permuted, each with all of its pages.

    Args:
        held: As ``groups_of`` takes it.
        scores: Score of each unit, float (n,), NaN where it has none.
        labels: bool (n,), membership.

    Returns:
        None with fewer than FEWEST members.
    """
    known = labels & ~np.isnan(held) & ~np.isnan(scores)
    count = int(known.sum())
    if count < FEWEST:
        return None
    pages, ranks = (rankdata(part[known]) - (count + 1) / 2 for part in (held, scores))
    deviation = float(np.sqrt((pages @ pages) * (ranks @ ranks)))
    if deviation == 0.0:
        return Trend(float("nan"), 1.0, count)
    if count <= _EXACT:
        drawn = pages[np.array(list(arrangements(range(count))))]  # the first is the data
    else:
        drawn = permuted_rows(pages, rng, permutations)
    sums = drawn @ ranks
    return Trend(float(sums[0]) / deviation, float((sums >= sums[0] - 1e-9).mean()), count)

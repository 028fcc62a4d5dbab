"""Contrasts between members and non-members, as functions of the weights of providers.

The same function gives the number itself (every provider once), its permutation test (members and the others drawn
anew) and its interval (providers resampled), so that what is tested is what is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pfl_audit.metrics.arrays import Bools, Counts, Floats, Integers, blocks, by_rows, permuted_rows
from pfl_audit.metrics.intervals import Estimate, estimate
from pfl_audit.metrics.permutation import PERMUTATIONS, Permuted, standardised

Contrast = Callable[[Floats, Floats], Floats]
"""Weights of the providers as members, and as non-members, float (rows, n) each, to float (rows,): 0 where chance alone
acts, NaN where a class has nothing to compare."""


def item_gap(sums: Floats, counts: Floats) -> Contrast:
    """Mean over the items of members minus that over the items of others, compared within strata.

    A stratum counts by the harmonic mean of its numbers of items in the classes (Mantel and Haenszel 1959), so one that
    a class lacks does not count. With one stratum it is the plain difference of means.

    Args:
        sums: Sum of the item values of each provider in each stratum, float (n,) or (n, strata).
        counts: Number of items, of the same shape.
    """
    sums, counts = (np.asarray(part, dtype=np.float64).reshape(len(part), -1) for part in (sums, counts))

    def contrast(members: Floats, others: Floats) -> Floats:
        inside, outside = members @ counts, others @ counts
        both = inside + outside
        with np.errstate(invalid="ignore", divide="ignore"):
            gaps = ((members @ sums) * outside - (others @ sums) * inside) / both
            weights = inside * outside / both
            value: Floats = np.nansum(gaps, axis=1) / np.nansum(weights, axis=1)
        return value

    return contrast


def area(scores: Floats) -> Contrast:
    """Area under the ROC curve minus one half; a pair of equal scores counts one half.

    Args:
        scores: Score of each provider, higher for members, float (n,); those that are NaN do not count.
    """
    kept = np.flatnonzero(~np.isnan(scores))
    distinct, group = np.unique(scores[kept], return_inverse=True)
    order = kept[np.argsort(group, kind="stable")]
    starts = np.searchsorted(np.sort(group), np.arange(len(distinct)))

    def of_block(members: Floats, others: Floats) -> Floats:
        inside, outside = (
            np.add.reduceat(np.ascontiguousarray(weights.T).take(order, axis=0), starts, axis=0)
            for weights in (members, others)
        )
        below = outside.cumsum(axis=0) - outside / 2
        with np.errstate(invalid="ignore", divide="ignore"):
            value: Floats = (inside * below).sum(axis=0) / (inside.sum(axis=0) * outside.sum(axis=0)) - 0.5
        return value

    def contrast(members: Floats, others: Floats) -> Floats:
        if not len(kept):
            return np.full(len(members), np.nan)
        return np.concatenate([of_block(*both) for both in zip(blocks(members), blocks(others), strict=True)])

    return contrast


def difference(first: Contrast, second: Contrast) -> Contrast:
    """How far the first lies above the second, with the same providers drawn for both."""
    return lambda members, others: first(members, others) - second(members, others)


def observed(contrast: Contrast, labels: Bools | Integers, least: int = 1) -> float:
    """The number itself; NaN where a class has nothing to compare."""
    members, others = labels >= least, labels == 0
    return float(contrast(members[None].astype(np.float64), others[None].astype(np.float64))[0])


def resampled(
    contrast: Contrast, labels: Bools | Integers, weights: Floats | Counts, chance: float = 0.0, least: int = 1
) -> Estimate:
    """The number with its interval over resampled providers.

    Args:
        contrast: Statistic of the providers' weights.
        labels: bool (n,), membership; or int (n,), 0 for non-members.
        weights: How often each provider is drawn, (resamples, n): ``intervals.bootstrap_weights``, or
            ``bootstrap_counts(...).T``.
        chance: Added to it all, such as 0.5 for an area.
        least: Smallest label of the members that count.
    """
    members, others = labels >= least, labels == 0
    samples = by_rows(lambda rows: contrast(rows * members, rows * others), weights)
    return estimate(observed(contrast, labels, least) + chance, samples + chance)


def permuted(
    contrasts: Sequence[Contrast],
    labels: Bools | Integers,
    rng: np.random.Generator,
    permutations: int = PERMUTATIONS,
    least: Sequence[int] = (),
) -> Permuted:
    """Permute labels over providers, and compare each number with the largest that chance gives any of them.

    Exact whatever the numbers of items, since they move with their provider. A number that is undefined counts as 0, in
    the data as under permutation.

    Args:
        contrasts: One at least.
        labels: bool (n,), membership; or int (n,), 0 for non-members.
        permutations: Number of permutations.
        least: Smallest label of the members that count for each contrast; all members by default.
    """

    def found(drawn: Bools | Integers) -> Floats:
        others = (drawn == 0).astype(np.float64)
        pairs = zip(contrasts, least or [1] * len(contrasts), strict=True)
        return np.stack([contrast((drawn >= one).astype(np.float64), others) for contrast, one in pairs], axis=1)

    return standardised(np.nan_to_num(by_rows(found, permuted_rows(labels, rng, permutations))))

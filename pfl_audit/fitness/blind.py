"""The blind baseline: members and non-members distinguished by their documents alone, without any model.

Where this succeeds, the classes differ in more than membership, and a membership attack may have read that difference
instead of the model. Sources: Das, Zhang and Tramèr, "Blind baselines beat membership inference attacks for foundation
models" (2024); Duan et al. (2024); Meeus et al. (2024).

The learner is kernel ridge regression with an intercept, cross-validated over providers. Its predictions are linear in
the labels, so a permutation of the labels is refitted exactly by one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg import solve
from scipy.stats import rankdata

from pfl_audit.fitness.document_features import DocumentFeatures
from pfl_audit.metrics import ranking
from pfl_audit.metrics.arrays import Bools, Floats, Integers
from pfl_audit.metrics.intervals import Estimate, bootstrap_weights, estimate

FOLDS: Final = 10
PERMUTATIONS: Final = 2000
PENALTY: Final = 0.01
"""Weight of the ridge penalty, relative to a kernel whose mean diagonal is one."""
_WIDTH: Final = 1.0
"""Width of the Gaussian kernel of a feature, in standard deviations of its ranks."""
_DECIMALS: Final = 9
"""Of a score: differences below are rounding errors, which would follow the labels."""
_AT_ONCE: Final = 250
"""Labellings that are fitted in one matrix product."""
_TINY: Final = 1e-12


@dataclass(frozen=True)
class Blind:
    """Result of the blind baseline.

    Attributes:
        units: Names, in the order of the scores.
        labels: bool (n,), true for members.
        scores: float (n,), of a regression that was fitted without the provider's fold; higher means "member".
        auc: AUC of the scores, with the bootstrap interval over providers; the regressions are not refitted, so that
            the interval is narrower than what chance gives, which the p-value accounts for.
        balanced_accuracy: Balanced accuracy of the calls, likewise.
        p_value: Share of permuted labellings whose AUC is as large, each fitted anew; at least 1 / (PERMUTATIONS + 1).
        kinds: Kind of feature to the AUC that it gives alone.
    """

    units: tuple[str, ...]
    labels: Bools
    scores: Floats
    auc: Estimate
    balanced_accuracy: Estimate
    p_value: float
    kinds: Mapping[str, Estimate]


def blind_baseline(
    features: DocumentFeatures, labels: Bools, rng: np.random.Generator, permutations: int = PERMUTATIONS
) -> Blind:
    """Classify providers as members or non-members by their documents.

    Args:
        features: One row a provider.
        labels: bool (n,), membership of the rows.
        rng: Draws the folds, the permutations and the bootstrap.

    Raises:
        ValueError: A class is missing.
    """
    folds = draw_folds(len(labels), rng)
    weights = bootstrap_weights(labels, rng)

    def scores_by(matrix: Floats) -> Floats:
        scores: Floats = out_of_fold_scores(matrix, folds, labels[None])[0]
        return scores

    def auc(scores: Floats) -> Estimate:
        return estimate(float(ranking.auc(scores, labels)[0]), ranking.auc(scores, labels, weights))

    total, kinds = np.zeros((len(labels), len(labels))), dict[str, Estimate]()
    for kind, kernel in kernels_of(features):  # one at a time: each takes as much memory as all other parts of an audit
        total += kernel
        kinds[kind] = auc(scores_by(out_of_fold_matrix(kernel, folds)))
    total /= max(1, len(kinds))
    joint = out_of_fold_matrix(total, folds)
    scores = scores_by(joint)
    calls = scores > 0
    return Blind(
        units=features.units,
        labels=labels,
        scores=scores,
        auc=auc(scores),
        balanced_accuracy=estimate(
            float(ranking.balanced_accuracy(calls, labels)[0]), ranking.balanced_accuracy(calls, labels, weights)
        ),
        p_value=permutation_p_value(joint, folds, labels, rng, permutations),
        kinds=kinds,
    )


def kernels_of(features: DocumentFeatures) -> Iterator[tuple[str, Floats]]:
    """Name and kernel of each kind of feature in which providers differ, float (n, n), centred, its mean diagonal one.

    Numbers: the mean of one Gaussian kernel a column, over ranks, so that a column may separate the classes in any
    way, and members in the middle of its range are found like those at an end. Words: cosine. Ranks and TF-IDF weights
    are those of all providers; no label is used.
    """
    for kind in (*features.tables, "words"):
        table = features.tables.get(kind)
        kernel = features.words @ features.words.T if table is None else additive_kernel(table.to_numpy())
        kernel = _centred(kernel)
        size = float(np.trace(kernel)) / len(kernel)
        if size > _TINY:
            kernel /= size
            yield kind, kernel


def additive_kernel(values: Floats) -> Floats:
    """Mean over the columns of a Gaussian kernel of their standardised ranks, float (n, n).

    Missing values take the median, and an indicator column of their own. A constant column is left out.

    Args:
        values: float (n, columns), NaN where missing.
    """
    kernel = np.zeros((len(values), len(values)))
    columns = [rank for column in values.T for rank in _ranks(column)]
    for column in columns:
        near = np.subtract.outer(column, column)
        np.square(near, out=near)
        near /= -2 * _WIDTH**2
        kernel += np.exp(near, out=near)
    kernel /= max(1, len(columns))
    return kernel


def draw_folds(providers: int, rng: np.random.Generator) -> Integers:
    """Number of the fold of every provider, int (n,): FOLDS of like size, or one a provider where there are fewer."""
    return rng.permutation(np.arange(providers) % FOLDS)


def out_of_fold_matrix(kernel: Floats, folds: Integers) -> Floats:
    """Labels to the predictions of kernel ridge regressions with an intercept, each fitted without the provider's fold.

    From the hat matrix H of the fit to all: within a fold the residuals are those of that fit, multiplied by the
    inverse of 1 - H.

    Args:
        kernel: float (n, n), positive semi-definite.
        folds: int (n,).

    Returns:
        float (n, n).
    """
    n = len(kernel)
    centred = _centred(kernel)
    penalised = centred.copy()
    penalised.flat[:: n + 1] += n * PENALTY
    # Both are symmetric; transposed they have the order of memory that is solved without a copy.
    residuals: Floats = -solve(penalised.T, centred.T, overwrite_a=True, overwrite_b=True, assume_a="pos").T
    del penalised, centred
    residuals.flat[:: n + 1] += 1
    residuals -= 1 / n
    matrix = np.eye(n)
    for fold in np.unique(folds):
        rows = np.flatnonzero(folds == fold)
        matrix[rows] -= np.linalg.solve(residuals[np.ix_(rows, rows)], residuals[rows])
    return matrix


def out_of_fold_scores(matrix: Floats, folds: Integers, labels: Bools) -> Floats:
    """Scores of every provider by the regression on the providers of the other folds, for many labellings at once.

    The targets of a regression are its labels, centred and divided by the shares of both classes among the providers
    that it is fitted on, so that the classes weigh the same whatever their sizes. A score is taken from the middle
    between the mean scores of the two classes in the other folds.

    Args:
        matrix: float (n, n), from ``out_of_fold_matrix``.
        folds: int (n,).
        labels: bool (labellings, n).

    Returns:
        float (labellings, n), to nine decimals; zero where the other folds lack a class.
    """
    y = labels.astype(np.float64)
    same = (folds[:, None] == folds[None]).astype(np.float64)
    members, others = (inside.sum(axis=1, keepdims=True) - inside @ same for inside in (y, 1 - y))
    both = (members > 0) & (others > 0)
    members, others = np.where(both, members, 1), np.where(both, others, 1)
    share = members / (members + others)
    scores = np.where(both, (y @ matrix.T - share) / (share * (1 - share)), 0.0)
    means = [
        ((scores * inside).sum(axis=1, keepdims=True) - (scores * inside) @ same) / count
        for inside, count in ((y, members), (1 - y, others))
    ]
    rounded: Floats = np.where(both, scores - (means[0] + means[1]) / 2, 0.0).round(_DECIMALS)
    return rounded


def permutation_p_value(
    matrix: Floats, folds: Integers, labels: Bools, rng: np.random.Generator, permutations: int
) -> float:
    """One-sided permutation p-value of the AUC, with the regression refitted for each labelling.

    Args:
        matrix: float (n, n), from ``out_of_fold_matrix``.
        folds: int (n,).
        labels: bool (n,), both classes.
    """

    def auc(drawn: Bools) -> Floats:
        return _auc(out_of_fold_scores(matrix, folds, drawn), drawn)

    observed = auc(labels[None])[0]
    reached = 0
    for start in range(0, permutations, _AT_ONCE):
        drawn = rng.permuted(np.tile(labels, (min(_AT_ONCE, permutations - start), 1)), axis=1)
        reached += int((auc(drawn) >= observed - _TINY).sum())
    return (1 + reached) / (1 + permutations)


def _centred(kernel: Floats) -> Floats:
    centred: Floats = kernel - kernel.mean(axis=0)
    centred -= kernel.mean(axis=1)[:, None]
    centred += kernel.mean()
    return centred


def _ranks(column: Floats) -> list[Floats]:
    """Standardised ranks of a column and of which of its values are missing; those that are constant are left out."""
    missing = ~np.isfinite(column)
    known = column[~missing]
    filled = np.where(missing, np.median(known) if len(known) else 0.0, column)
    ranks = [rankdata(filled), missing.astype(np.float64)]
    return [(rank - rank.mean()) / rank.std() for rank in ranks if rank.std() > _TINY]


def _auc(scores: Floats, labels: Bools) -> Floats:
    """Area under the ROC curve of every row, ties counted half, float (rows,)."""
    members = labels.sum(axis=1)
    ranks = (rankdata(scores, axis=1) * labels).sum(axis=1) - members * (members + 1) / 2
    area: Floats = ranks / (members * (labels.shape[1] - members))
    return area

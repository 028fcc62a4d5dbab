"""The blind baseline: members and non-members distinguished by their documents alone, without any model.

Where this succeeds, the classes differ in more than membership, and a membership attack may have read that difference
instead of the model. Sources: Das, Zhang and Tramèr, "Blind baselines beat membership inference attacks for foundation
models" (2024); Duan et al. (2024); Meeus et al. (2024).

The learner is kernel ridge regression with an intercept, cross-validated over providers. Its predictions are linear in
the labels, so a permutation of the labels is refitted exactly by two products with a matrix of few columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression, RidgeCV

from pfl_audit.fitness.document_features import DocumentFeatures
from pfl_audit.fitness.kernel_factors import factors_of, narrow
from pfl_audit.metrics import ranking
from pfl_audit.metrics.arrays import Bools, Floats, Integers
from pfl_audit.metrics.intervals import Estimate, bootstrap_counts, estimate

FOLDS: Final = 10
PERMUTATIONS: Final = 2000
PENALTY: Final = 0.01
"""Weight of the ridge penalty, relative to a kernel whose mean diagonal is one."""
PENALTIES: Final = np.logspace(-3, 1, 9)
"""Of which ``Blind.unexplained`` takes the best, likewise."""
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
        factor: Factor of the kernel of all features, float (n, columns), which no label enters.
        folds: Fold of each provider, int (n,); those of a group are in one.
    """

    units: tuple[str, ...]
    labels: Bools
    scores: Floats
    auc: Estimate
    balanced_accuracy: Estimate
    p_value: float
    kinds: Mapping[str, Estimate]
    factor: Floats
    folds: Integers

    def log_odds(self) -> Floats:
        """Logarithm of the odds of membership given the documents, up to a constant, float (n,).

        The scores, each of a regression without the provider's fold, by a logistic curve (Platt scaling): flat where
        they say nothing, or the contrary.
        """
        fitted = LogisticRegression().fit(self.scores[:, None], self.labels)
        return max(0.0, float(fitted.coef_[0, 0])) * self.scores

    def unexplained(self, values: Floats, rows: Integers) -> Floats:
        """Residuals of numbers of providers, of a ridge regression on their documents without labels, float (m,).

        Its penalty is that of the least error of a provider that is left out, so that nothing is subtracted where the
        documents do not explain the numbers.

        Args:
            values: float (m,).
            rows: Their providers, int (m,).
        """
        factor = self.factor[rows]
        if not factor.shape[1]:
            return values - values.mean()
        return values - RidgeCV(PENALTIES * len(rows)).fit(factor, values).predict(factor)


def blind_baseline(
    features: DocumentFeatures,
    labels: Bools,
    rng: np.random.Generator,
    permutations: int = PERMUTATIONS,
    groups: Sequence[str] | None = None,
) -> Blind:
    """Classify providers as members or non-members by their documents.

    Args:
        features: One row a provider.
        labels: bool (n,), membership of the rows.
        rng: Draws the folds, the permutations and the bootstrap.
        permutations: Number of permutations.
        groups: Name of the group of each provider, which is in one fold; each by itself if None.

    Raises:
        ValueError: A class is missing.
    """
    numbers = np.unique(features.units if groups is None else groups, return_inverse=True)[1]
    folds = draw_folds(int(numbers.max()) + 1, rng)[numbers]
    counts = bootstrap_counts(labels, rng)

    def auc(scores: Floats) -> Estimate:
        return estimate(float(ranking.auc(scores, labels)[0]), ranking.sweep(scores, labels).resampled(counts)[0])

    factors = dict(factors_of(features))
    kinds = {}
    for kind, factor in factors.items():
        kinds[kind] = auc(out_of_fold_scores(OutOfFold.fitted(factor, folds), labels[None])[0])
    every = narrow(np.hstack([np.zeros((len(labels), 0)), *factors.values()]) / np.sqrt(max(1, len(factors))))
    joint = OutOfFold.fitted(every, folds)
    scores: Floats = out_of_fold_scores(joint, labels[None])[0]
    calls = scores > 0
    _, balanced = ranking.right_calls(calls, labels, np.arange(len(labels)), counts)
    return Blind(
        units=features.units,
        labels=labels,
        scores=scores,
        auc=auc(scores),
        balanced_accuracy=estimate(float(ranking.balanced_accuracy(calls, labels)[0]), balanced),
        p_value=permutation_p_value(joint, labels, rng, permutations),
        kinds=kinds,
        factor=every,
        folds=folds,
    )


def draw_folds(providers: int, rng: np.random.Generator) -> Integers:
    """Number of the fold of every provider, int (n,): FOLDS of like size, or one a provider where there are fewer."""
    return rng.permutation(np.arange(providers) % FOLDS)


@dataclass(frozen=True)
class OutOfFold:
    """Kernel ridge regressions with an intercept, each fitted without a fold, as a function of the labels.

    From the residuals of the fit to all, which are linear in the labels: within a fold those of the fit without it are
    the same, multiplied by the inverse of the fold's block of 1 - H, with H the hat matrix.

    Attributes:
        folds: Fold of each provider, int (n,).
        hat: float (n, columns); H is its product with itself, plus 1 / n.
        blocks: Rows of each fold, and the Cholesky factor of its block of 1 - H.
    """

    folds: Integers
    hat: Floats
    blocks: tuple[tuple[Integers, tuple[Floats, bool]], ...]

    @classmethod
    def fitted(cls, factor: Floats, folds: Integers) -> OutOfFold:
        """Prepare for all labellings.

        Args:
            factor: float (n, columns), centred; the kernel is its product with itself.
            folds: int (n,).
        """
        n, columns = factor.shape
        inner = factor.T @ factor
        inner.flat[:: columns + 1] += n * PENALTY
        hat = solve_triangular(cholesky(inner, lower=True), factor.T, lower=True).T if columns else factor
        blocks = []
        for fold in np.unique(folds):
            rows = np.flatnonzero(folds == fold)
            block = np.eye(len(rows)) - hat[rows] @ hat[rows].T - 1 / n
            blocks.append((rows, cho_factor(block, lower=True)))
        return cls(folds, hat, tuple(blocks))

    def predictions(self, targets: Floats) -> Floats:
        """What each provider is predicted without its fold, float (labellings, n); ``targets`` likewise."""
        residuals = targets - targets.mean(axis=1, keepdims=True) - (targets @ self.hat) @ self.hat.T
        for rows, block in self.blocks:
            residuals[:, rows] = cho_solve(block, residuals[:, rows].T).T
        return targets - residuals

    def outside(self, values: Floats) -> Floats:
        """Sum over the providers of all other folds, float (labellings, n); ``values`` likewise."""
        member = (self.folds[:, None] == np.arange(self.folds.max() + 1)).astype(np.float64)
        return values.sum(axis=1, keepdims=True) - (values @ member)[:, self.folds]


def out_of_fold_scores(regressions: OutOfFold, labels: Bools) -> Floats:
    """Scores of every provider by the regression on the providers of the other folds, for many labellings at once.

    The targets of a regression are its labels, centred and divided by the shares of both classes among the providers
    that it is fitted on, so that the classes weigh the same whatever their sizes. A score is taken from the middle
    between the mean scores of the two classes in the other folds.

    Args:
        labels: bool (labellings, n).

    Returns:
        float (labellings, n), to nine decimals; zero where the other folds lack a class.
    """
    y = labels.astype(np.float64)
    members, others = regressions.outside(y), regressions.outside(1 - y)
    both = (members > 0) & (others > 0)
    members, others = np.where(both, members, 1), np.where(both, others, 1)
    share = members / (members + others)
    scores = np.where(both, (regressions.predictions(y) - share) / (share * (1 - share)), 0.0)
    means = [regressions.outside(scores * inside) / count for inside, count in ((y, members), (1 - y, others))]
    return np.where(both, scores - (means[0] + means[1]) / 2, 0.0).round(_DECIMALS)


def permutation_p_value(regressions: OutOfFold, labels: Bools, rng: np.random.Generator, permutations: int) -> float:
    """One-sided permutation p-value of the AUC, with the regression refitted for each labelling.

    Args:
        labels: bool (n,), both classes.
    """

    def auc(drawn: Bools) -> Floats:
        return _auc(out_of_fold_scores(regressions, drawn), drawn)

    observed = auc(labels[None])[0]
    reached = 0
    for start in range(0, permutations, _AT_ONCE):
        drawn = rng.permuted(np.tile(labels, (min(_AT_ONCE, permutations - start), 1)), axis=1)
        reached += int((auc(drawn) >= observed - _TINY).sum())
    return (1 + reached) / (1 + permutations)


def _auc(scores: Floats, labels: Bools) -> Floats:
    """Area under the ROC curve of every row, ties counted half, float (rows,)."""
    members = labels.sum(axis=1)
    ranks = (rankdata(scores, axis=1) * labels).sum(axis=1) - members * (members + 1) / 2
    return ranks / (members * (labels.shape[1] - members))

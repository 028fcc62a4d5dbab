"""The blind baseline: members and non-members told apart from their documents alone, without any model.

Where this succeeds, the classes differ in more than membership, and a membership attack may have read that difference
instead of the model. Sources: Das, Zhang and Tramèr, "Blind baselines beat membership inference attacks for foundation
models" (2024); Duan et al. (2024); Meeus et al. (2024).

The learner is kernel ridge regression with an intercept, evaluated by leaving out one provider at a time. Its scores
are linear in the labels up to a scale, so a permutation of the labels is refitted exactly by one matrix product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pfl_audit.attacks.membership.document_features import DocumentFeatures
from scipy.stats import rankdata

from pfl_audit.metrics import ranking
from pfl_audit.metrics.intervals import Estimate, bootstrap_weights, estimate

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

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
    """What the documents alone give away of membership.

    Attributes:
        providers: In the order of the scores.
        labels: bool (n,), true for members.
        scores: float (n,), of a model that was fitted without the provider; higher means "member".
        auc: Of the scores, with the bootstrap interval over providers.
        balanced_accuracy: Of the calls, likewise.
        p_value: Share of permuted labellings whose AUC is as large, each fitted anew; at least 1 / (PERMUTATIONS + 1).
        kinds: Kind of feature to the AUC that it gives alone.
    """

    providers: tuple[str, ...]
    labels: Bools
    scores: Floats
    auc: Estimate
    balanced_accuracy: Estimate
    p_value: float
    kinds: Mapping[str, Estimate]

    @property
    def calls(self) -> Bools:
        """Whether each provider is called a member, bool (n,)."""
        calls: Bools = self.scores > 0
        return calls


def blind_baseline(
    features: DocumentFeatures, labels: Bools, rng: np.random.Generator, permutations: int = PERMUTATIONS
) -> Blind:
    """Tell members from non-members by their documents.

    Args:
        features: One row a provider.
        labels: bool (n,), membership of the rows.
        rng: Of the permutations and the bootstrap.
        permutations: How many labellings are drawn.

    Raises:
        ValueError: A class is missing.
    """
    kernels = kernels_of(features)
    joint = hat_matrix(sum(kernels.values(), np.zeros((len(labels), len(labels)))) / max(1, len(kernels)))
    weights = bootstrap_weights(labels, rng)

    def auc(found: Floats) -> Estimate:
        return estimate(float(ranking.auc(found, labels)[0]), ranking.auc(found, labels, weights))

    def alone(kernel: Floats) -> Floats:
        scores: Floats = out_of_sample_scores(hat_matrix(kernel), labels[None])[0]
        return scores

    scores: Floats = out_of_sample_scores(joint, labels[None])[0]
    calls = scores > 0
    return Blind(
        providers=features.providers,
        labels=labels,
        scores=scores,
        auc=auc(scores),
        balanced_accuracy=estimate(
            float(ranking.balanced_accuracy(calls, labels)[0]), ranking.balanced_accuracy(calls, labels, weights)
        ),
        p_value=permutation_p_value(joint, labels, rng, permutations),
        kinds={kind: auc(alone(kernel)) for kind, kernel in kernels.items()},
    )


def kernels_of(features: DocumentFeatures) -> dict[str, Floats]:
    """A kernel for each kind of feature in which providers differ, float (n, n), centred, its mean diagonal one.

    Numbers: the mean of one Gaussian kernel a column, over ranks, so that a column may separate the classes in any
    way, and members in the middle of its range are found like those at an end. Words: cosine. Ranks and TF-IDF weights
    are those of all providers; no label is used.
    """
    kernels = {kind: additive_kernel(table.to_numpy()) for kind, table in features.tables.items()}
    kernels["words"] = features.words @ features.words.T
    centred = {kind: _centred(kernel) for kind, kernel in kernels.items()}
    sizes = {kind: float(np.trace(kernel)) / len(kernel) for kind, kernel in centred.items()}
    return {kind: kernel / sizes[kind] for kind, kernel in centred.items() if sizes[kind] > _TINY}


def additive_kernel(values: Floats) -> Floats:
    """Mean over the columns of a Gaussian kernel of their standardised ranks, float (n, n).

    Missing values take the median, and an indicator column of their own. A constant column is left out.

    Args:
        values: float (n, columns), NaN where missing.
    """
    kernel = np.zeros((len(values), len(values)))
    columns = [rank for column in values.T for rank in _ranks(column)]
    for column in columns:
        kernel += np.exp(-((column[:, None] - column[None]) ** 2) / (2 * _WIDTH**2))
    return kernel / max(1, len(columns))


def hat_matrix(kernel: Floats) -> Floats:
    """Labels to the fitted values of kernel ridge regression with an intercept that is not penalised, float (n, n).

    Args:
        kernel: float (n, n), positive semi-definite.
    """
    n = len(kernel)
    centred = _centred(kernel)
    return np.asarray(np.linalg.solve(centred + n * PENALTY * np.eye(n), centred) + 1 / n, dtype=np.float64)


def out_of_sample_scores(hat: Floats, labels: Bools) -> Floats:
    """Scores of every provider by the regression on all others, for many labellings at once.

    The targets of a regression are its labels, centred and divided by the shares of both classes among the providers
    that it is fitted on, so that the classes weigh the same whatever their sizes. A score is taken from the middle
    between the mean scores of the two classes of the other providers. Leave-one-out residuals are those of the fit to
    all, divided by one minus the leverage, so one hat matrix serves all labellings.

    Args:
        hat: float (n, n), from ``hat_matrix``.
        labels: bool (labellings, n).

    Returns:
        float (labellings, n), to nine decimals; zero where the others lack a class.
    """
    y = labels.astype(np.float64)
    others = len(hat) - 1
    members = y.sum(axis=1, keepdims=True) - y
    both = (members > 0) & (members < others)
    predicted = y - (y - y @ hat) / (1 - np.diag(hat))
    centred = predicted - members / max(1, others)
    scores = np.where(both, centred * others**2 / np.where(both, members * (others - members), 1), 0.0)
    rounded: Floats = np.where(both, scores - _midpoints(scores, y), 0.0).round(_DECIMALS)
    return rounded


def permutation_p_value(hat: Floats, labels: Bools, rng: np.random.Generator, permutations: int) -> float:
    """How often permuted labels are told apart as well as these, each labelling fitted anew; one-sided, by AUC.

    Args:
        hat: float (n, n), from ``hat_matrix``.
        labels: bool (n,), both classes.
        rng: The only source of chance.
        permutations: How many are drawn.
    """
    observed = _auc(out_of_sample_scores(hat, labels[None]), labels[None])[0]
    reached = 0
    for start in range(0, permutations, _AT_ONCE):
        rows = min(_AT_ONCE, permutations - start)
        drawn = rng.permuted(np.tile(labels, (rows, 1)), axis=1)
        reached += int((_auc(out_of_sample_scores(hat, drawn), drawn) >= observed - _TINY).sum())
    return (1 + reached) / (1 + permutations)


def _midpoints(scores: Floats, y: Floats) -> Floats:
    """Middle between the mean scores of members and of non-members, without the provider's own, float (rows, n)."""
    means = []
    for inside in (y, 1 - y):
        sums = (scores * inside).sum(axis=1, keepdims=True) - scores * inside
        means.append(sums / np.maximum(inside.sum(axis=1, keepdims=True) - inside, 1))
    middle: Floats = (means[0] + means[1]) / 2
    return middle


def _centred(kernel: Floats) -> Floats:
    centred: Floats = kernel - kernel.mean(axis=0) - kernel.mean(axis=1)[:, None] + kernel.mean()
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

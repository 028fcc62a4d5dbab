"""The blind baseline, refitted from nothing with scikit-learn for every fold and every labelling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import roc_auc_score

from pfl_audit.fitness.blind import PENALTY

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def additive_kernel(values: Floats) -> Floats:
    """Mean of the Gaussian kernels of the standardised ranks of each column, and of what is missing in it."""
    kernel, columns = np.zeros((len(values), len(values))), 0
    for column in values.T:
        missing = ~np.isfinite(column)
        known = column[~missing]
        filled = np.where(missing, np.median(known) if len(known) else 0.0, column)
        for rank in (rankdata(filled), missing.astype(np.float64)):
            if rank.std() > 1e-12:
                standard = (rank - rank.mean()) / rank.std()
                kernel += np.exp(-(np.subtract.outer(standard, standard) ** 2) / 2)
                columns += 1
    return kernel / max(1, columns)


def centred(kernel: Floats) -> Floats:
    """Rows and columns of mean zero, and a mean diagonal of one."""
    kernel = kernel - kernel.mean(axis=0) - kernel.mean(axis=1)[:, None] + kernel.mean()
    return kernel / (np.trace(kernel) / len(kernel))


def scores(kernel: Floats, folds: NDArray[np.int64], labels: Bools) -> Floats:
    n = len(kernel)
    raw, out = np.zeros(n), np.zeros(n)
    for fold in set(folds):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        share = labels[train].mean()
        if share in (0, 1):
            continue
        targets = (labels[train] - share) / (share * (1 - share))
        inner, row = kernel[np.ix_(train, train)], kernel[np.ix_(test, train)]
        centred = inner - inner.mean(axis=0) - inner.mean(axis=1)[:, None] + inner.mean()
        row = row - row.mean(axis=1)[:, None] - inner.mean(axis=0) + inner.mean()
        raw[test] = KernelRidge(alpha=n * PENALTY, kernel="precomputed").fit(centred, targets).predict(row)
    for fold in set(folds):
        rest, test = folds != fold, folds == fold
        if labels[rest].any() and not labels[rest].all():
            out[test] = raw[test] - (raw[rest & labels].mean() + raw[rest & ~labels].mean()) / 2
    return out


def p_value(
    kernel: Floats, folds: NDArray[np.int64], labels: Bools, rng: np.random.Generator, permutations: int
) -> float:
    drawn = rng.permuted(np.tile(labels, (permutations, 1)), axis=1)
    observed = roc_auc_score(labels, scores(kernel, folds, labels).round(9))
    found = [roc_auc_score(row, scores(kernel, folds, row).round(9)) for row in drawn]
    return (1 + sum(auc >= observed - 1e-12 for auc in found)) / (1 + permutations)

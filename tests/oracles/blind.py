"""The blind baseline, refitted from nothing with scikit-learn for every fold and every labelling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import roc_auc_score

from pfl_audit.fitness.blind import PENALTY

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


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

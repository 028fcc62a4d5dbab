"""The blind baseline, refitted from nothing with scikit-learn for every provider and every labelling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pfl_audit.attacks.membership.blind import PENALTY
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import roc_auc_score

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def scores(kernel: Floats, labels: Bools) -> Floats:
    n = len(kernel)
    raw = np.zeros(n)
    for left_out in range(n):
        train = np.array([row for row in range(n) if row != left_out])
        share = labels[train].mean()
        if share in (0, 1):
            continue
        targets = (labels[train] - share) / (share * (1 - share))
        inner = kernel[np.ix_(train, train)]
        centred = inner - inner.mean(axis=0) - inner.mean(axis=1)[:, None] + inner.mean()
        row = kernel[left_out, train]
        row = row - row.mean() - inner.mean(axis=0) + inner.mean()
        ridge = KernelRidge(alpha=n * PENALTY, kernel="precomputed").fit(centred, targets)
        raw[left_out] = ridge.predict(row[None])[0]
    out = np.zeros(n)
    for left_out in range(n):
        rest = np.arange(n) != left_out
        if labels[rest].all() or not labels[rest].any():
            continue
        middle = (raw[rest & labels].mean() + raw[rest & ~labels].mean()) / 2
        out[left_out] = raw[left_out] - middle
    return out


def p_value(kernel: Floats, labels: Bools, rng: np.random.Generator, permutations: int) -> float:
    drawn = rng.permuted(np.tile(labels, (permutations, 1)), axis=1)
    observed = roc_auc_score(labels, scores(kernel, labels).round(9))
    found = [roc_auc_score(row, scores(kernel, row).round(9)) for row in drawn]
    return (1 + sum(auc >= observed - 1e-12 for auc in found)) / (1 + permutations)

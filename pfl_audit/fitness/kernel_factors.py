"""Kernels between providers as factors: a matrix F of few columns with F F' the kernel, so that none is n by n.

A Gaussian kernel of one column of numbers has some twenty columns at the precision of a float, whatever the number of
providers. What is made from the factors takes time and memory in proportion to the providers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from scipy.stats import rankdata

from pfl_audit.fitness.document_features import DocumentFeatures
from pfl_audit.metrics.arrays import Floats

_WIDTH: Final = 1.0
"""Width of the Gaussian kernel of a feature, in standard deviations of its ranks."""
_ERROR: Final = 1e-14
"""Largest error of an entry of the kernel of a column."""
_TINY: Final = 1e-12


def factors_of(features: DocumentFeatures) -> Iterator[tuple[str, Floats]]:
    """Name and factor of each kind of feature in which providers differ; the kernel is centred, its mean diagonal one.

    Numbers: the mean of one Gaussian kernel a column, over ranks, so that a column may separate the classes in any
    way, and members in the middle of its range are found like those at an end. Words: cosine. Ranks and TF-IDF weights
    are those of all providers; no label is used.

    Returns:
        Pairs of a kind and float (n, columns).
    """
    for kind in (*features.tables, "words"):
        table = features.tables.get(kind)
        factor = features.words if table is None else additive_factor(table.to_numpy())
        factor = factor - factor.mean(axis=0)
        size = float(np.square(factor).sum()) / len(factor)
        if size > _TINY:
            factor /= np.sqrt(size)
            yield kind, factor


def additive_factor(values: Floats) -> Floats:
    """Factor of the mean over the columns of a Gaussian kernel of their standardised ranks, float (n, columns).

    Missing values take the median, and an indicator column of their own. A constant column is left out.

    Args:
        values: float (n, columns), NaN where missing.
    """
    columns = [rank for column in values.T for rank in _ranks(column)]
    if not columns:
        return np.zeros((len(values), 0))
    return narrow(np.hstack([_gaussian_factor(column) for column in columns]) / np.sqrt(len(columns)))


def narrow(factor: Floats) -> Floats:
    """A factor of the same kernel with no more columns than rows."""
    rows, columns = factor.shape
    if columns <= rows:
        return factor
    triangle: Floats = np.linalg.qr(factor.T).R
    return np.ascontiguousarray(triangle.T)


def _gaussian_factor(column: Floats) -> Floats:
    """Cholesky factor of the Gaussian kernel, the row that is worst explained next, until all are."""
    distinct, place = np.unique(column, return_inverse=True)
    left, factor = np.ones(len(distinct)), np.empty((0, len(distinct)))
    while left.max() > _ERROR:
        at = int(left.argmax())
        row = np.exp(-np.square(distinct - distinct[at]) / (2 * _WIDTH**2)) - factor[:, at] @ factor
        row /= np.sqrt(left[at])
        factor = np.vstack([factor, row])
        left = np.maximum(left - np.square(row), 0.0)
        left[at] = 0.0
    return factor.T[place]


def _ranks(column: Floats) -> list[Floats]:
    """Standardised ranks of a column and of which of its values are missing; those that are constant are left out."""
    missing = ~np.isfinite(column)
    known = column[~missing]
    filled = np.where(missing, np.median(known) if len(known) else 0.0, column)
    ranks = [rankdata(filled), missing.astype(np.float64)]
    return [(rank - rank.mean()) / rank.std() for rank in ranks if rank.std() > _TINY]

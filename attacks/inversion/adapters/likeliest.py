"""Which vectors of a dictionary rows are likely to be combinations of, where the pursuit takes too many wrong ones.

Of tens of thousands of vectors the largest share of a wrong one in few directions is above those of the right ones.
Here all are weighed together: with Gaussian coefficients of variance w_i of each vector d_i, and covariance

    S = sum_i w_i d_i d_i^T + e I,    w_i <- w_i sqrt(mean over rows y of (d_i^T S^-1 y)^2 / (d_i^T S^-1 d_i))

makes the rows likelier in every step, and most variances vanish. The order by variance is a start for the pursuit,
which ends, or does not, by errors alone.

Source: Wipf and Rao, An empirical Bayesian strategy for solving the simultaneous sparse approximation problem, 2007.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pfl_audit.metrics.arrays import Floats, Integers

_STEPS: Final = 130
_ERROR: Final = (1e-2, 0.95, 1e-10)
"""Error e times the number of coordinates, its factor in a step, and its smallest value."""
_WHOLE_STEPS: Final = 20
"""Steps with all vectors."""
_VANISHED: Final = 1e-4
"""Share of the middle of the largest variances below which one is taken as zero after that."""


def likeliest(rows: Floats, dictionary: Floats, edge: float, count: int) -> Integers:
    """Order vectors by the variance of their coefficients.

    Args:
        rows: As of ``pursue``.
        dictionary: As of ``pursue``.
        edge: As of ``pursue``.
        count: Number of vectors to name.

    Returns:
        int64 (n,), at most ``count``.
    """
    _, strengths, every = np.linalg.svd(rows, full_matrices=False)
    directions, many = every[strengths > edge].astype(np.float32), rows.shape[1]
    sizes = np.linalg.norm(dictionary, axis=1)
    numbers = np.flatnonzero(sizes)
    if not len(directions) or not len(numbers):
        return np.zeros(0, np.int64)
    units = (dictionary[numbers] / sizes[numbers, None]).astype(np.float32)
    variances, error = np.full(len(units), 1 / len(units)), _ERROR[0] / many
    for step in range(_STEPS):
        covariance = ((units.T * variances.astype(np.float32)) @ units).astype(np.float64) + error * np.eye(many)
        solved = units @ np.linalg.inv(covariance).astype(np.float32)
        own = np.maximum(np.einsum("ij,ij->i", solved, units), 1e-12).astype(np.float64)
        variances = variances * np.sqrt(np.square(solved @ directions.T).mean(axis=1).astype(np.float64) / own)
        error = max(error * _ERROR[1], _ERROR[2])
        if step >= _WHOLE_STEPS and len(units) > count:
            kept = variances > _VANISHED * np.median(np.sort(variances)[-count:])
            units, variances, numbers = units[kept], variances[kept], numbers[kept]
    return np.asarray(numbers[np.argsort(-variances, kind="stable")][:count])

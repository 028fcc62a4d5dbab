"""The error signal of every position, and the rows of other tables that signals were added to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.noise import Noise, chi_square
from pfl_audit.metrics.arrays import Floats, Integers

_STRIKING = 4.7
"""Standard deviations that make a row stand out: one in 400,000 by chance, for tables of 50,000 rows."""
_FEW = 16


@dataclass(frozen=True)
class Sums:
    """Rows of a table that signals were added to.

    Attributes:
        rows: int64 (used,), their numbers.
        values: float64 (used, width).
    """

    rows: Integers
    values: Floats


def signals_of(position: Tensor, first: int, noise: Noise) -> Floats:
    """Rows of the position table from the first token's to the last that is above the noise, float64 (n, width)."""
    rows = position[first:].double().numpy()
    count = _FEW if noise.everywhere else 0
    for _ in range(3):  # what signals have in common is known the better the more of them are known
        common = np.median(rows[:count], axis=0) if count else np.zeros(rows.shape[1])
        used = np.flatnonzero(_stands_out(rows, common, noise))
        count = int(used[-1]) + 1 if len(used) else 0
    return rows[:count]


def sums_of(table: Tensor, signals: Floats, noise: Noise) -> Sums:
    """Rows that signals were added to.

    Args:
        table: (rows, width).
        signals: float64 (n, width), the signals or slices of them that may have been added.
    """
    if not noise.everywhere:
        table, numbers = table[table.any(dim=1)], table.any(dim=1).nonzero()[:, 0].numpy()
        return Sums(numbers, table.double().numpy())
    values = table.double().numpy()
    rows = np.flatnonzero(_stands_out(values, np.median(signals, axis=0), noise))
    return Sums(rows, values[rows])


def rows_of(table: Tensor, noise: Noise) -> Integers:
    """Rows of a table that were looked up, by their energy alone, int64 (used,).

    Args:
        table: (rows, width).
    """
    values = table.double().numpy()
    return np.flatnonzero(_stands_out(values, np.zeros(values.shape[1]), noise))


def _stands_out(rows: Floats, common: Floats, noise: Noise) -> NDArray[np.bool_]:
    """Rows with more energy than noise has, or with more in the one direction that all signals have in common."""
    if not noise.everywhere:
        return np.asarray(rows.any(axis=1))
    much = (rows**2).mean(axis=1) > noise.sigma**2 * chi_square(_STRIKING, rows.shape[1])
    return np.asarray(much | (np.abs(rows @ common) > _STRIKING * noise.sigma * np.linalg.norm(common)))


def without(values: Floats, basis: Floats) -> Floats:
    """Rows with a subspace taken out of them.

    Args:
        values: float64 (rows, width).
        basis: float64 (dimensions, width), orthonormal.
    """
    return values - (values @ basis.T) @ basis

"""Rows of a tied table that tokens looked up, among rows that all have a gradient of the output.

Where the table of tokens scores the answer as well, its gradient is L + P^T H: L has the signals of tokens that were
looked up, in their rows alone; P, (answer tokens, vocabulary), has the errors of the scores and H, (answer tokens,
width), the decoder's states. Rows that were not looked up lie in the span of H, which has as many dimensions as the
answers have tokens. A signal that was looked up lies in it by chance alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.analytic.noise import chi_square
from pfl_audit.metrics.arrays import Floats

_QUIET: Final = 0.5
"""Share of the rows, those of the smallest norm, nearly all of which were not looked up."""
_CAP: Final = 1.5
"""Norm over the largest that errors explain, to which longer rows are shortened for the fit: none decides it alone."""
_BESIDE: Final = 0.1
"""Share of a row outside the span from which on it was looked up."""
_STRIKING: Final = 5.0
"""Standard deviations above the errors from which on a row is significant."""
_NEAR: Final = 3.0
"""Norm of a found row over the largest that errors explain, up to which others may be below the errors."""
_ALONE: Final = 0.5
"""Leverage from which on a row is alone in its direction, as no row of the output is."""
_FLOOR: Final = 1.2
"""Times the largest eigenvalue of errors (Marchenko and Pastur, 1967) below which a direction is none."""
_DOUBLE: Final = 1e-14
"""Share of the energy that double precision leaves beside a span."""
_CLOSE: Final = 0.01
"""Relative change of the size of errors at which the fit has converged."""
_FITS: Final = 30
_MANY: Final = 0.75
"""Share of all directions from which on too few are left to stand out of."""
_LEAST: Final = 1e-300


@dataclass(frozen=True)
class Beside:
    """Rows beside the span of the output.

    Attributes:
        rows: int64 (found,), numbers of rows that were looked up.
        hidden: Whether rows that were looked up may be below the errors, since those that were found come near them.
    """

    rows: NDArray[np.int64]
    hidden: bool


def rows_beside_output(table: Floats, rounding: float, sigma: Floats | float = 0.0) -> Beside:
    """Find the rows that were looked up.

    The span and the size of the errors are fitted in turn: a direction is one that the rows share beyond errors of this
    size, and the errors are what it leaves of the quiet rows.

    Args:
        table: float64 (vocabulary, width), gradient of the tied table.
        rounding: Relative error of an entry, by the precision of the gradient.
        sigma: Standard deviation of what every entry has beside that, such as noise or the rounding of weights that
            were subtracted; float64 (vocabulary,) where rows differ.

    Returns:
        No rows where they share nearly all directions.
    """
    width = table.shape[1]
    norms, basis = np.linalg.norm(table, axis=1), np.zeros((width, 0))
    errors = np.maximum(np.sqrt(np.square(sigma) + (rounding * norms) ** 2 / width), _LEAST)
    rows = table / errors[:, None]
    sizes = np.linalg.norm(rows, axis=1)
    moved = norms > 0
    if not moved.any():
        return Beside(np.flatnonzero(moved), hidden=False)
    quiet = moved & (sizes <= np.quantile(sizes[moved], _QUIET))
    scale, dimensions, outside = max(1.0, float(np.median(sizes[quiet])) / np.sqrt(width)), 0, sizes
    for _ in range(_FITS):
        basis = _span(rows[moved], scale)
        dimensions = basis.shape[1]
        if dimensions > _MANY * width:
            return Beside(np.flatnonzero(moved)[:0], hidden=True)
        outside = np.linalg.norm(rows - (rows @ basis) @ basis.T, axis=1)
        before, scale = scale, max(1.0, float(np.median(outside[quiet])) / np.sqrt(width - dimensions))
        if abs(scale - before) <= _CLOSE * before:
            break
    most = _most(scale, width - dimensions)
    beside = outside > np.sqrt(most**2 + (_BESIDE * sizes) ** 2)
    hidden = not beside.any() or bool(outside[beside].min() < _NEAR * most)
    return Beside(np.flatnonzero(beside), hidden)


def _span(rows: Floats, scale: float) -> Floats:
    """Directions, float64 (width, dimensions), that rows share; rows alone in theirs are left out.

    Args:
        rows: float64 (n, width), not zero.
        scale: Standard deviation of errors of their entries.
    """
    width = rows.shape[1]
    shorter = np.minimum(1.0, _CAP * _most(scale, width) / np.linalg.norm(rows, axis=1))
    rows = rows * shorter[:, None]
    edge = float(np.square(scale * shorter).mean()) * (1 + np.sqrt(width / len(rows))) ** 2
    floor = max(_FLOOR * edge, _DOUBLE * float(np.square(rows).sum(axis=1).mean()))
    while True:
        values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
        basis, energy = vectors[:, values > floor], values[values > floor]
        together = ((rows @ basis) ** 2 / (len(rows) * energy)).sum(axis=1) < _ALONE
        if together.all():
            return basis
        if not together.any():
            return basis[:, :0]
        rows = rows[together]


def _most(scale: float, width: int) -> float:
    """Largest norm of a row that errors of this size explain."""
    return scale * float(np.sqrt(width * chi_square(_STRIKING, width)))

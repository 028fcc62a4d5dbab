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

Floats = NDArray[np.float64]

_QUIET: Final = 0.5
"""Share of the rows, those of the smallest norm, that the span is fitted to; where most of them are below the errors,
it is fitted to the others, nearly all of which were looked up."""
_BESIDE: Final = 0.1
"""Share of a row outside the span from which on it was looked up."""
_CLEAR: Final = 0.02
"""Largest error of a row over its norm with which its direction is known."""
_LEAST: Final = 1e-14
"""Share of the energy that double precision leaves beside a span."""
_ALONE: Final = 0.5
"""Leverage from which on a row is alone in its direction, as no row of the output is."""
_FLOOR: Final = 16.0
"""Times the variance of errors below which a direction of unit rows is none."""


@dataclass(frozen=True)
class Beside:
    """Rows beside the span of the output.

    Attributes:
        rows: int64 (found,), numbers of rows that were looked up.
        dimensions: Of the span: tokens of the answers, as far as their directions can be distinguished from rounding.
        blurred: Median share of quiet rows outside the span: 0 for an exact gradient, near 1 for noise.
    """

    rows: NDArray[np.int64]
    dimensions: int
    blurred: float

    @property
    def separate(self) -> bool:
        """Whether the span explains the quiet rows, so that the others stand out."""
        return self.blurred < _BESIDE / 2


def rows_beside_output(table: Floats, rounding: float, sigma: float = 0.0) -> Beside:
    """Find the rows that were looked up.

    Args:
        table: float64 (vocabulary, width), gradient of the tied table.
        rounding: Relative error of an entry, by the precision of the gradient.
        sigma: Standard deviation of what every entry has beside that: noise, or the steps of half precision at 0.

    Returns:
        No rows where the span is not separate from noise.
    """
    width = table.shape[1]
    norms = np.linalg.norm(table, axis=1)
    clear = np.flatnonzero(norms * _CLEAR > sigma * np.sqrt(width))
    if not len(clear):
        return Beside(clear, 0, float((norms > 0).any()))
    units = table[clear] / norms[clear, None]
    errors = rounding**2 + (sigma / norms[clear]) ** 2 * width
    low = norms[clear] <= np.quantile(norms, _QUIET)
    fitted = low if 2 * low.sum() > _QUIET * len(norms) else np.ones(len(clear), dtype=bool)
    basis = _span(units[fitted], max(_FLOOR * float(errors[fitted].mean()) / width, _LEAST))
    if basis.shape[1] >= width // 2:  # noise has no span
        return Beside(clear[:0], basis.shape[1], 1.0)
    outside = np.linalg.norm(units - (units @ basis) @ basis.T, axis=1)
    blurred = float(np.median(outside[fitted])) if fitted is low else 0.0
    found = Beside(clear[outside > _BESIDE], basis.shape[1], blurred)
    return found if found.separate else Beside(clear[:0], found.dimensions, found.blurred)


def _span(units: Floats, floor: float) -> Floats:
    """Directions, float64 (width, dimensions), that rows of norm 1 share; rows alone in theirs are left out.

    Args:
        floor: Mean energy of a direction that errors explain.
    """
    while True:
        values, vectors = np.linalg.eigh(units.T @ units / len(units))
        basis, energy = vectors[:, values > floor], values[values > floor]
        together = ((units @ basis) ** 2 / (len(units) * energy)).sum(axis=1) < _ALONE
        if together.all():
            return basis
        if not together.any():
            return basis[:, :0]
        units = units[together]

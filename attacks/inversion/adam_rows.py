"""Rows of a tied table that tokens looked up, among rows that steps of Adam changed by about the same amount.

A step of Adam divides by the size of the gradient, so that little but signs is left. Rows of the output alone have
P^T H (see tied_rows.py), whose signs still share few patterns: with one step sign(P^T H), and the scores of tokens that
are no answer differ little. A row that was looked up has the signs of its own signal. So the rows beside the common
directions of all rows are those that were looked up, and the two kinds are distinguished by the gap between them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pfl_audit.metrics.arrays import Floats, Integers

_COMMON: Final = 8
"""One in so many directions at most is counted as common to the rows of the output."""
_ENERGY: Final = 0.99
"""Share of the energy that these have: what is beyond may be of single rows."""
_APART: Final = 2.0
"""Ratio of the medians of both kinds from which on there are two: of noise it is near 1."""
_FEW: Final = 10
"""Rows of the smaller kind, at least."""
_LEAST: Final = 1e-12


def rows_beside_common(table: Floats) -> Integers:
    """Find the rows that were looked up.

    Args:
        table: float64 (vocabulary, width), difference of weights without weight decay.

    Returns:
        Numbers of the rows, int64 (found,); none where the rows are of one kind, as those of noise.
    """
    norms = np.linalg.norm(table, axis=1)
    moved = np.flatnonzero(norms)
    width = table.shape[1]
    if len(moved) <= max(width, 2 * _FEW):
        return moved[:0]
    units = table[moved] / norms[moved, None]
    energy, vectors = np.linalg.eigh(units.T @ units)
    largest = np.cumsum(energy[::-1]) / energy.sum()
    common = vectors[:, -min(width // _COMMON, 1 + int(np.searchsorted(largest, _ENERGY))) :]
    outside = np.linalg.norm(units - (units @ common) @ common.T, axis=1)
    in_logarithms = threshold_of(np.log(np.maximum(outside, _LEAST)))  # the stricter one, whichever kind is normal
    own = outside > max(threshold_of(outside), float(np.exp(in_logarithms)))
    if not own.any() or np.median(outside[own]) < _APART * np.median(outside[~own]):
        return moved[:0]
    return moved[own]


def threshold_of(values: Floats) -> float:
    """The value at and below which the lower of two kinds ends, each normal, with the fewest errors.

    Source: Kittler and Illingworth, "Minimum error thresholding", 1986, equation 15.

    Args:
        values: float64 (n,), at least twenty.
    """
    ordered, count = np.sort(values), len(values)
    low = np.arange(1, count)
    sums, squares = np.cumsum(ordered), np.cumsum(ordered**2)
    share = low / count
    below = np.maximum(squares[:-1] / low - (sums[:-1] / low) ** 2, _LEAST)
    rest = count - low
    above = np.maximum((squares[-1] - squares[:-1]) / rest - ((sums[-1] - sums[:-1]) / rest) ** 2, _LEAST)
    errors = share * np.log(below / share**2) + (1 - share) * np.log(above / (1 - share) ** 2)
    return float(ordered[_FEW - 1 + np.argmin(errors[_FEW - 1 : 1 - _FEW])])

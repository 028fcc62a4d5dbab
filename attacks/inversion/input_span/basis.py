"""Row space of the gradient of a linear layer, its errors, and how far a vector lies outside.

    dL/dW = sum_p g_p h_p^T

Every row is a combination of the inputs h_p of the layer, so that with fewer distinct inputs than their width they lie
in the rows' span, and hardly any other vector does. Errors (rounding, noise, weights that were subtracted) turn it:
errors of standard deviation e turn an input with coordinates c_i in directions of strength s_i out of it by
e^2 sum (c_i / s_i)^2 in each direction outside.

Source: the span test is DAGER's (Petrov et al., DAGER: Exact gradient inversion for large language models, 2024); the
largest singular value of errors is that of Marchenko and Pastur, 1967.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pfl_audit.metrics.arrays import Floats

_ABOVE: Final = 1.1
"""Times the largest singular value of errors of the size of the rest, from which on a direction is none of them."""
_WEAKER: Final = (1, 3, 10, 30, 100, 300, 1000)
"""Times that value, at which further spans end."""
_LEAST_OUTSIDE: Final = 8
"""Directions outside below which a random vector may lie in the span."""
_STATE: Final = 4 * 2.0**-24
"""Relative error of an input: products and sums of the network in single precision."""
_DOUBLE: Final = 1e-15
"""Share of the largest singular value that double precision leaves."""
_LEAST: Final = 1e-300


@dataclass(frozen=True, eq=False)
class Basis:
    """The span of the inputs of a layer.

    Attributes:
        scales: float64 (width,), size of the errors of each column; vectors are divided by it.
        inside: float64 (width, rank), orthonormal directions of the span, of divided vectors.
        outside: float64 (width, width - rank), the other directions.
        strengths: float64 (rank,), singular values of the directions over the size of the errors.
    """

    scales: Floats
    inside: Floats
    outside: Floats
    strengths: Floats

    @property
    def rank(self) -> int:
        """Directions above the errors: distinct inputs, at least."""
        return len(self.strengths)

    @property
    def informative(self) -> bool:
        """Whether it holds something, and not everything."""
        return self.rank > 0 and self.outside.shape[1] >= _LEAST_OUTSIDE

    def beside(self, vectors: Floats) -> Floats:
        """Coordinates outside the span, float64 (..., width - rank), of vectors float64 (..., width)."""
        return np.asarray((vectors / self.scales) @ self.outside)

    def turned(self, vectors: Floats) -> Floats:
        """What errors make of a vector outside the span, float64 (..., rank + width).

        The sum of its squares is the variance of a coordinate outside: what the turn of the span makes of it, and the
        rounding of the input itself.
        """
        scaled = vectors / self.scales
        own = scaled * (_STATE / np.sqrt(len(self.scales)))
        return np.concatenate([(scaled @ self.inside) / self.strengths, own], axis=-1)

    def excess(self, beside: Floats, variance: Floats) -> Floats:
        """How far a vector lies outside over what errors explain: about 1 for an input.

        Args:
            beside: Squared length outside, float64 (...).
            variance: Squared length of ``turned``, float64 (...).

        Returns:
            float64 (...), root of the ratio.
        """
        return np.asarray(np.sqrt(np.maximum(beside, 0.0) / np.maximum(variance * self.outside.shape[1], _LEAST)))

    def excess_of(self, vectors: Floats) -> Floats:
        """The same of vectors, float64 (n, width)."""
        return self.excess(np.square(self.beside(vectors)).sum(axis=1), np.square(self.turned(vectors)).sum(axis=1))


def bases_of(gradient: Floats, rounding: float, sigma: float | Floats = 0.0) -> list[Basis]:
    """The span of the inputs of a layer, by the gap in the singular values of its gradient.

    Rows and columns are divided by the size of their errors. The span ends at the first singular value that errors of
    the size of all that follow explain, so that no size has to be known. Errors that have directions of their own
    (steps at which the weights had changed, sums with large terms) look like weak inputs; the further spans leave them
    out, each with more of the weak directions.

    Args:
        gradient: float64 (outputs, width); of several layers with the same input one below the other.
        rounding: Relative error of an entry, by the precision of the gradient.
        sigma: Standard deviation of what every entry has beside that, of all rows or float64 (outputs,).

    Returns:
        Spans of fewer and fewer directions, at least one.
    """
    used = gradient.any(axis=1)
    moved, added = gradient[used], np.broadcast_to(sigma, len(gradient))[used, None]
    many, width = len(moved), gradient.shape[1]
    if not many:
        return [Basis(np.ones(width), np.zeros((width, 0)), np.eye(width), np.zeros(0))]
    variance = np.maximum(added**2 + (rounding * moved) ** 2, _LEAST)
    rows = np.sqrt(variance.mean(axis=1))
    scales = np.sqrt((variance / rows[:, None] ** 2).mean(axis=0))
    triangle = np.linalg.qr(moved / rows[:, None] / scales, mode="r")
    _, values, directions = np.linalg.svd(triangle, full_matrices=True)
    strengths = np.concatenate([values, np.zeros(width - len(values))])
    at = np.arange(width)
    left = np.maximum(many - at, 1)
    size = np.sqrt(np.cumsum(strengths[::-1] ** 2)[::-1] / (left * (width - at)))
    edge = np.maximum(_ABOVE * size * (np.sqrt(left) + np.sqrt(width - at)), _DOUBLE * strengths[0])
    none = strengths <= edge
    most = int(np.argmax(none)) if none.any() and min(many, width) > int(np.argmax(none)) else width
    if most == width:
        return [Basis(scales, directions.T, np.zeros((width, 0)), np.ones(width))]
    found = []
    for rank in dict.fromkeys(int((strengths[:most] > times * edge[most]).sum()) for times in _WEAKER):
        error = max(size[rank], _DOUBLE * strengths[0])
        held = np.sqrt(np.maximum(strengths[:rank] ** 2 - many * error**2, error**2)) / error
        found.append(Basis(scales, directions[:rank].T, directions[rank:].T, held))
    return found

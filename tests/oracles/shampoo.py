"""FedShampoo's local training as printed, in float64: Kronecker products, and roots by fractional matrix powers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import fractional_matrix_power

Array = NDArray[np.float64]


def shampoo(
    start: Array, gradients: Sequence[Array], *, rate: float, clip: float, damping: float, every: int, roots: int
) -> list[Array]:
    """Weights after every step (pfl-docvqa-competition, algorithm 1, lines 9 to 21; Gupta et al. 2018, algorithm 2).

    Args:
        start: Weights to begin with, of any number of axes.
        gradients: Gradient of each step.
        every: Steps between updates of the statistics.
        roots: Steps between roots.
    """
    weights, order = start.astype(np.float64), start.ndim
    statistics = [np.eye(size) for size in start.shape]
    preconditioner, seen = np.eye(start.size), []
    for step, gradient in enumerate(gradients, 1):
        if step % every == 0:
            for axis in range(order):
                others = [other for other in range(order) if other != axis]
                statistics[axis] = statistics[axis] + np.tensordot(gradient, gradient, (others, others))
        if step % roots == 0:
            powers = [
                np.real(fractional_matrix_power(matrix + damping * np.eye(len(matrix)), -1 / (2 * order)))
                for matrix in statistics
            ]
            preconditioner = reduce(np.kron, powers)
        update = (preconditioner @ gradient.reshape(-1)).reshape(start.shape)
        weights = weights - rate * np.clip(update, -clip, clip)
        seen.append(weights)
    return seen

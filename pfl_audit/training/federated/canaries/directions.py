"""Orthonormal directions: rows of a Hadamard matrix with random signs of the columns.

Orthonormal directions make the projections of Gaussian noise independent, and a canary leaves those of all others as
they are. Every direction has the same absolute value in all coordinates, so that a bound by coordinate in place of the
norm has an effect. A direction is made when it is needed, and a fast transform takes all projections.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pfl_audit.training.federated.secure_rng import SecretStream


class Directions:
    """Directions of the canaries.

    Args:
        count: Number of directions.
        salt: Decides the signs.

    Attributes:
        size: Length of a direction, a power of 2.
    """

    def __init__(self, count: int, salt: bytes) -> None:
        self.count = count
        self.size = 1 << max(1, (count - 1).bit_length())
        signs = SecretStream(salt).uniform(self.size, "signs") < 0.5
        self._columns = np.where(signs, 1.0, -1.0) / math.sqrt(self.size)
        self._short = self._columns.astype(np.float32)

    def direction(self, number: int) -> NDArray[np.float32]:
        """A direction, float32 (size,), of norm 1."""
        row = np.ones(1, dtype=np.float32)
        for bit in range(self.size.bit_length() - 1):
            row = np.concatenate([row, -row if number >> bit & 1 else row])
        return row * self._short

    def project(self, vector: NDArray[np.float32]) -> NDArray[np.float64]:
        """Projections of a vector, float32 (size,), on all directions, float64 (count,)."""
        values = vector * self._columns
        width = 1
        while width < self.size:
            pairs = values.reshape(-1, 2, width)
            values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
            width *= 2
        return values[: self.count]

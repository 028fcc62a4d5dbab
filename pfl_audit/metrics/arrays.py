"""Types of arrays, and blocks of their rows."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.float32]
"""Small whole numbers."""
Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]

Scalar = TypeVar("Scalar", np.float32, np.float64)

_CELLS = 1 << 17
"""Elements of a block: what is computed from them fits into a cache."""


def blocks(rows: NDArray[Scalar]) -> list[NDArray[Scalar]]:
    """Rows in blocks, as views; two rows at least where there are two.

    NumPy sums a single row in another order than several, with another rounding error.

    Args:
        rows: float (rows, n), such as resamples by providers.
    """
    return np.array_split(rows, max(1, len(rows) // max(2, _CELLS // max(1, rows.shape[1]))))

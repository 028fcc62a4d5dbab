"""Types of arrays, and blocks of their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

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
_MEMORY = 1 << 27
"""Elements from which on rows are computed in blocks: 1 GiB of float64, or 33,500 units permuted 4,000 times."""


def blocks(rows: NDArray[Scalar]) -> list[NDArray[Scalar]]:
    """Rows in blocks, as views; two rows at least where there are two.

    NumPy sums a single row in another order than several, with another rounding error.

    Args:
        rows: float (rows, n), such as resamples by providers.
    """
    return np.array_split(rows, max(1, len(rows) // max(2, _CELLS // max(1, rows.shape[1]))))


def by_rows(function: Callable[..., Floats], *arrays: NDArray[Any]) -> Floats:
    """What a function of rows gives, in blocks of rows where there are too many for memory at once.

    Products of matrices may differ in the last bit from those of all rows at once, so smaller arrays have one block.

    Args:
        function: Gives float (rows,) or (rows, k), each row from the same row of the arrays alone.
        arrays: (rows, n) each.
    """
    rows, columns = arrays[0].shape
    if rows * columns <= _MEMORY:
        return function(*arrays)
    size = max(2, _MEMORY // 8 // columns)
    parts = (np.array_split(each, max(1, rows // size)) for each in arrays)
    return np.concatenate([function(*part) for part in zip(*parts, strict=True)])


def permuted_rows(labels: Bools, rng: np.random.Generator, permutations: int) -> Bools:
    """The labels, and below them permutations: bool (1 + permutations, n), made in place."""
    drawn = np.tile(labels, (1 + permutations, 1))
    rng.permuted(drawn[1:], axis=1, out=drawn[1:])
    return drawn

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
Label = TypeVar("Label", bound=np.generic)

_CELLS = 1 << 17
"""Elements of a block: what is computed from them fits into a cache."""
_MEMORY = 1 << 24
"""Elements from which on rows are computed in blocks: 128 MiB of float64, or 8,300 units resampled 2,000 times."""
_ROWS = 256
"""Rows of a block are a multiple of it, and none has fewer where memory has room: BLAS multiplies a matrix in parts of
as many rows or fewer, and sums the rows of a smaller one in another order."""


def blocks(rows: NDArray[Scalar]) -> list[NDArray[Scalar]]:
    """Rows in blocks, as views; two rows at least where there are two.

    NumPy sums a single row in another order than several, with another rounding error.

    Args:
        rows: float (rows, n), such as resamples by providers.
    """
    return np.array_split(rows, max(1, len(rows) // max(2, _CELLS // max(1, rows.shape[1]))))


def by_rows(function: Callable[..., Floats], *arrays: NDArray[Any]) -> Floats:
    """What a function of rows gives, in blocks of rows where there are too many for memory at once.

    Products of matrices may differ in the last bit from those of all rows at once, where BLAS has several threads or
    the block is small.

    Args:
        function: Gives float (rows,) or (rows, k), each row from the same row of the arrays alone.
        arrays: (rows, n) each; the function gets those of float32 as float64.
    """
    rows, columns = arrays[0].shape
    if rows * columns <= _MEMORY:
        return function(*map(_wide, arrays))
    size = max(2, _MEMORY // columns)
    if size > _ROWS:
        size -= size % _ROWS
    least = max(2, min(size, _ROWS) // 2)
    starts = range(0, max(1, rows - least + 1), size)  # fewer that are left are in the last block as well
    ends = [*starts[1:], rows]
    return np.concatenate(
        [function(*(_wide(each[start:end]) for each in arrays)) for start, end in zip(starts, ends, strict=True)]
    )


def _wide(rows: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(rows, dtype=np.float64) if rows.dtype == np.float32 else rows


def permuted_rows(labels: NDArray[Label], rng: np.random.Generator, permutations: int) -> NDArray[Label]:
    """The labels, and below them permutations: (1 + permutations, n), made in place."""
    drawn = np.tile(labels, (1 + permutations, 1))
    rng.permuted(drawn[1:], axis=1, out=drawn[1:])
    return drawn

"""Which vectors of a dictionary a few known rows are combinations of, all of the same ones (joint sparsity).

Rank-aware order-recursive matching pursuit: of the directions that the rows still have, each step takes the vector with
the largest share of itself in them, outside of all that was taken before. Once no more vectors are missing than there
are directions, the missing ones lie in them, and hardly any other one does: the end is the span test.

Source: Davies and Eldar, Rank awareness in joint sparse recovery, 2012, section VI (RA-ORMP).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pfl_audit.metrics.arrays import Floats, Integers

LEAST_OUTSIDE: Final = 8
"""Directions that must be left outside of an explanation: with fewer, wrong vectors explain rows by chance."""
_NEARLY_NONE: Final = 1e-6
"""Share of its squared length outside of what is taken up to which a vector adds nothing."""


@dataclass(frozen=True, eq=False)
class Explained:
    """An explanation of rows.

    Attributes:
        chosen: int64 (n,), numbers of vectors, in the order in which they were taken.
        directions: float64 (n, m), orthonormal; each is what its vector has outside of those before it.
        left: Largest singular value of what is left of the rows.
        ends: Whether that is no more than errors are.
    """

    chosen: Integers
    directions: Floats
    left: float
    ends: bool


def pursue(rows: Floats, dictionary: Floats, edge: float, start: Sequence[int] = ()) -> Explained:
    """Take vectors until errors explain what is left of the rows.

    Args:
        rows: float64 (k, m), in the coordinates that are left of them.
        dictionary: float64 (vectors, m), in the same coordinates.
        edge: Largest singular value of errors alone.
        start: Numbers of vectors to take first.

    Returns:
        The explanation; it does not end where errors do if as many vectors were taken as the coordinates allow.
    """
    many = rows.shape[1]
    left, taken, chosen = rows.copy(), np.zeros((0, many)), list[int]()
    squares, given = np.square(dictionary).sum(axis=1), list(start)
    least = np.maximum(squares * _NEARLY_NONE, 1e-300)
    while True:
        _, strengths, directions = np.linalg.svd(left, full_matrices=False)
        held = directions[strengths > edge]
        most = float(strengths[0]) if len(strengths) else 0.0
        if not len(held) or len(chosen) >= many - LEAST_OUTSIDE:
            return Explained(np.array(chosen, dtype=np.int64), taken, most, not len(held))
        if given:
            best = int(given.pop(0))
            if squares[best] <= least[best]:  # a combination of those before it
                continue
        else:
            inside = np.square(dictionary @ held.T).sum(axis=1)
            share = np.where(squares > least, inside / np.maximum(squares, least), 0.0)
            share[chosen] = 0.0
            best = int(np.argmax(share))
        direction = outside(dictionary[best], taken)
        chosen.append(best)
        taken = np.concatenate([taken, direction[None]])
        left = left - np.outer(left @ direction, direction)
        squares = squares - np.square(dictionary @ direction)


def outside(vector: Floats, taken: Floats) -> Floats:
    """Direction of what a vector, float64 (m,), has outside of orthonormal ones, float64 (n, m)."""
    for _ in range(2):  # once more, for what rounding leaves
        vector = vector - taken.T @ (taken @ vector)
    return np.asarray(vector / np.linalg.norm(vector))

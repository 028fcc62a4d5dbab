"""The fewest vectors of a dictionary that explain rows, by trying all sets, and what others in their places leave."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def left_of(rows: Floats, vectors: Floats) -> float:
    """Largest singular value of what is left of rows, float64 (k, m), outside of vectors, float64 (n, m)."""
    if not len(vectors):
        return float(np.linalg.norm(rows, 2))
    fit, *_ = np.linalg.lstsq(vectors.T, rows.T, rcond=None)
    return float(np.linalg.norm(rows - fit.T @ vectors, 2))


def fewest(rows: Floats, dictionary: Floats, most: int, edge: float) -> list[tuple[int, ...]]:
    """All sets of the smallest number of vectors that leave no more than ``edge``."""
    for count in range(most + 1):
        sets = combinations(range(len(dictionary)), count)
        found = [some for some in sets if left_of(rows, dictionary[list(some)]) <= edge]
        if found:
            return found
    return []


def nearest_other(rows: Floats, dictionary: Floats, chosen: list[int], place: int) -> float:
    """The least that any other vector leaves in the place of one of those chosen."""
    kept = [each for at, each in enumerate(chosen) if at != place]
    others = [each for each in range(len(dictionary)) if each not in chosen]
    return min(left_of(rows, dictionary[[*kept, other]]) for other in others)

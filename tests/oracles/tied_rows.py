"""Rows of a tied table that were looked up, with the decoder's states known: one least-squares fit a row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def rows_beside(table: NDArray[np.float64], states: NDArray[np.float64], share: float = 0.1) -> list[int]:
    """Numbers of the rows of which more than a share lies outside the span of the states, (answer tokens, width)."""
    found = []
    for number, row in enumerate(table):
        fit, *_ = np.linalg.lstsq(states.T, row, rcond=None)
        if np.linalg.norm(row - states.T @ fit) > share * np.linalg.norm(row) > 0:
            found.append(number)
    return found

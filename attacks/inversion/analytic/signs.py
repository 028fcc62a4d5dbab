"""Tokens by the directions of rows, where sums do not hold: steps of Adam, quantised or sparse updates.

After one step of Adam or AdamW a weight has moved by the learning rate times the sign of its gradient. Sums are
gone, and with them boxes and pixels; yet the sign of a sum agrees with the signs of its parts more often than with
others: with all of them for a word that occurs once, and with three in four for one that occurs twice. The row with
the most agreeing signs is the token. For entries of one size this is the row with the largest cosine, which is what is
taken in the other cases as well.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.tokens import Reading
from pfl_audit.metrics.arrays import Floats, Integers

_MOVED = 0.5
"""Rows count as looked up from this share of the largest row's norm; others moved by weight decay only."""
_CLEAR = 3.0
_ALIKE = 0.8


def only_signs(position: Tensor) -> bool:
    """Whether all numbers of the rows that were looked up are of one size, as after one step of Adam."""
    sizes = position[looked_up(position)].double().abs().flatten()
    few, most = sizes[:: max(1, len(sizes) // 100_000)].quantile(torch.tensor([0.1, 0.9], dtype=torch.float64))
    return bool(few > _ALIKE * most)


def looked_up(table: Tensor) -> Tensor:
    """Bool (rows,), rows that moved by more than weight decay."""
    sizes = table.double().norm(dim=1)
    return sizes > _MOVED * sizes.max()


def tokens_by_direction(rows: Floats, numbers: Integers, places: Floats) -> Reading:
    """The token whose row of the word table points most in the direction of each position's row.

    Args:
        rows: float64 (used, width), rows of the word table that were looked up.
        numbers: int64 (used,), their tokens.
        places: float64 (positions, width).

    Returns:
        One reading a position; ``sure`` where the second best row is clearly farther.
    """
    if not len(rows) or not len(places):
        return Reading(np.full((len(places), 1), -1), np.zeros(len(places), dtype=bool), False, numbers)
    agreement = _unit(places) @ _unit(rows).T
    best = agreement.argmax(axis=1)
    top = agreement[np.arange(len(best)), best]
    others = np.partition(agreement, -2, axis=1)[:, -2] if agreement.shape[1] > 1 else np.zeros(len(best))
    sure: NDArray[np.bool_] = top - others > _CLEAR / sqrt(places.shape[1])
    return Reading(numbers[best][:, None], sure, complete=False, present=numbers)


def tokens_from_signs(word: Tensor, position: Tensor, first: int) -> Reading:
    """The likeliest token of every position after a step of Adam.

    Args:
        word: Update of the word table.
        position: Update of the position table.
        first: Row of the first token's position.
    """
    rows = looked_up(word).nonzero()[:, 0]
    places = position[first:][looked_up(position[first:])].sign().double().numpy()
    return tokens_by_direction(word[rows].sign().double().numpy(), rows.numpy(), places)


def _unit(rows: Floats) -> Floats:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)

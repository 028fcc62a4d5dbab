"""Number by number: what an update's numbers show, and what weight decay added to it."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

Rows = Sequence[Sequence[float]]


def nearest_row(rows: Rows, place: Sequence[float]) -> int:
    """Index of the row with the largest cosine to a vector."""

    def cosine(row: Sequence[float]) -> float:
        size = sqrt(sum(a * a for a in row)) * sqrt(sum(b * b for b in place))
        return sum(a * b for a, b in zip(row, place, strict=True)) / size if size else 0.0

    return max(range(len(rows)), key=lambda at: cosine(rows[at]))


def different_numbers(rows: Rows) -> int:
    """Most different numbers in one row."""
    return max(len(set(row)) for row in rows)


def decayed(weight: float, rate: float, decay: float, steps: int) -> float:
    """By how much steps of AdamW move a weight without a gradient."""
    before = weight
    for _ in range(steps):
        weight -= rate * decay * weight
    return weight - before

"""Sign-flip test of paired differences, exact.

Two procedures are compared on the same units. Where neither is better, the difference of each unit is as likely to have
the opposite sign, and units are independent. With differences of -1, 0 and 1 this is McNemar's exact test.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def sign_flip(differences: Sequence[int]) -> float:
    """One-sided p-value of the sum of differences: the share of all signs that give a sum at least as large.

    Args:
        differences: Difference of each unit, whole numbers; zeros do not count.

    Returns:
        Above 0, at most 1; 1 without a unit that differs.
    """
    sizes = [abs(difference) for difference in differences if difference]
    chances = np.ones(1)
    for size in sizes:
        flipped = np.zeros(len(chances) + size)
        flipped[: len(chances)] += chances / 2
        flipped[size:] += chances / 2
        chances = flipped
    positive = sum(difference for difference in differences if difference > 0)
    return float(min(1.0, chances[positive:].sum()))

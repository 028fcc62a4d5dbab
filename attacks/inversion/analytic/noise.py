"""Estimate of a gradient's noise and rounding from the gradient itself.

A table's row that was not looked up has a gradient of exactly zero. Noise that a client adds spares no row, so the
rows in the middle show how large it is. Where there is none, what is left is rounding: in the precision that the
numbers stand in, and, where a difference of weights was shared, in that of the weights. It shows in a balance,
since each position adds the same signal to every table: sum_v dL/dT[v] = sum_t dL/dP[t].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import torch
from torch import Tensor

_UNITS: Final = (
    (torch.bfloat16, 2.0**-8),
    (torch.float16, 2.0**-11),
    (torch.float32, 2.0**-24),
    (torch.float64, 2.0**-53),
)
_SUMS = 3.0
"""Rounding of a sum over that of one number; of 400 signals in float32 it was measured at up to 2.7."""
_QUANTILE = 5.0
_UNEVEN = 1.5
"""Errors of one row over those of all, where weights of different size were subtracted."""


def chi_square(deviations: float, width: int) -> float:
    """Quantile of chi-square over its mean, at so many standard deviations of a normal (Wilson and Hilferty, 1931)."""
    spread = 2 / (9 * width)
    return (1 - spread + deviations * sqrt(spread)) ** 3


@dataclass(frozen=True)
class Noise:
    """Errors of the entries of a gradient.

    Attributes:
        sigma: Standard deviation of what was added to every entry.
        rounding: Relative error of a sum, by the precision.
        everywhere: Whether rows that were not looked up have it as well.
    """

    sigma: float
    rounding: float
    everywhere: bool

    def variance(self, terms: float, mass: float, width: int) -> float:
        """Variance of an entry of a residual.

        Args:
            terms: Number of noisy vectors in the sum.
            mass: Sum of their norms.
            width: Width of the vectors.
        """
        return self.sigma**2 * terms + (self.rounding * mass) ** 2 / width

    def most(self, variance: float, width: int) -> float:
        """Largest squared norm of a residual that noise explains: chi-square's quantile at _QUANTILE."""
        return variance * width * chi_square(_QUANTILE, width)


def noise_of(looked_up: Sequence[Tensor], position: Tensor, balanced: Tensor | None) -> Noise:
    """Estimate the noise of a gradient.

    Args:
        looked_up: Gradients of tables most rows of which no page uses, (rows, width) each.
        position: Gradient of the position table.
        balanced: Gradient of a table whose rows have the same sum as those of the position table, with padding in both
            or in neither; or None.
    """
    rounding = _SUMS * next(unit for kind, unit in _UNITS if torch.equal(position.to(kind).to(position), position))
    if looked_up and all(table.any(dim=1).all() for table in (*looked_up, position)):
        quiet = [table.double().square().mean(dim=1).median() / chi_square(0.0, table.shape[1]) for table in looked_up]
        return Noise(sqrt(min(quiet)), rounding, everywhere=True)
    if balanced is None:
        return Noise(0.0, rounding, everywhere=False)
    gap = _UNEVEN * float((balanced.double().sum(dim=0) - position.double().sum(dim=0)).square().mean().sqrt())
    return Noise(gap / sqrt(int(balanced.any(dim=1).sum() + position.any(dim=1).sum())), rounding, everywhere=False)

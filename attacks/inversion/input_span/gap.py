"""Where inputs end and other vectors begin: the widest gap between what is known to be in and what cannot be.

Nothing of the page is used. Some inputs are in every sample (the prompt, the end), and random ones are in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.input_span.basis import Basis
from pfl_audit.metrics.arrays import Floats

_CHANCE: Final = 0.01
"""Expected number of wrong candidates below the level from which on a vector may be a wrong one."""
_APART: Final = 1.5
"""Ratio of that level to the largest excess of a known input from which on the two are apart."""
_LEAST: Final = 1e-12


class Apart:
    """The levels of one test.

    Args:
        known: Excess of inputs that are in every sample, float64 (n,).
        null: Excess of random inputs, most of which are in no sample, float64 (kinds, m): inputs of a kind, such as
            those with one box, are alike.
        count: Number of candidates that will be tested.
        lower: Whether the lower half of random inputs shows how near wrong ones come: hardly any is in a sample, and
            errors have no directions of their own. Else the upper half has to, which is wider where an input has a
            weak signal: what errors make of vectors without its direction is less.
    """

    def __init__(self, known: Floats, null: Floats, count: int, *, lower: bool) -> None:
        self.high = max(1.0, float(known.max(initial=0.0)))
        shares = [0.5, NormalDist().cdf(-1.0 if lower else 1.0)]
        middle, other = np.quantile(np.log(np.maximum(null, _LEAST)), shares, axis=1)
        deviations = NormalDist().inv_cdf(1 - min(0.5, _CHANCE / max(count, 1)))
        self.low = float(np.exp(middle - deviations * np.abs(other - middle)).min())
        """Level above which wrong vectors are, as of a normal distribution of logarithms."""
        self.foreign = self.high > float(np.exp(middle.min())) / _APART
        """Whether what must be in is as far outside as random vectors: the gradient is not of this model."""

    @property
    def separated(self) -> bool:
        """Whether known inputs and wrong ones are apart."""
        return self.low > _APART * self.high

    def cut(self, excess: Floats) -> float:
        """Largest excess of an input: the middle of the widest gap between the levels, in logarithms.

        Args:
            excess: Of the candidates, float64 (n,); values above ``low`` have no effect.
        """
        between = excess[(excess > self.high) & (excess < self.low)]
        ends = np.log(np.concatenate([[self.high], np.sort(between), [self.low]]))
        widest = int(np.argmax(np.diff(ends)))
        return float(np.exp((ends[widest] + ends[widest + 1]) / 2))


def first_apart(
    bases: Sequence[Basis], known: Floats, null: Floats, count: int, *, lower: bool = False
) -> tuple[Basis, Apart]:
    """The span of the most directions in which known inputs and wrong ones are apart; else that of the most directions.

    Args:
        bases: Spans of fewer and fewer directions, at least one.
        known: Inputs that are in every sample, float64 (n, width).
        null: Random inputs, float64 (kinds, m, width).
        count: Number of candidates that will be tested.
        lower: As of ``Apart``.
    """

    def levels(basis: Basis) -> Apart:
        of_null = basis.excess_of(null.reshape(-1, null.shape[2])).reshape(null.shape[:2])
        return Apart(basis.excess_of(known), of_null, count, lower=lower)

    tried = ((basis, levels(basis)) for basis in bases if basis.informative)
    return next((each for each in tried if each[1].separated), None) or (bases[0], levels(bases[0]))

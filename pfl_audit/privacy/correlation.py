"""Noise that is correlated over rounds by a banded strategy matrix (DP-FTRL).

The noise of T rounds is C^-1 Z, with independent Z (Denisov et al. 2022, "Improved Differential Privacy for SGD via
Optimal Private Linear Operators on Adaptive Streams"). C is lower triangular with b bands: a Toeplitz matrix whose
columns are scaled to norm 1 (Choquette-Choo et al. 2023, "(Amplified) Banded Matrix Factorization", arXiv 2306.08153;
McKenna 2024, arXiv 2405.15913, for the optimisation). Columns that are b or more apart have no row in common, so k
updates of one provider in rounds so far apart move C times the sums by the square root of k clips at most, and all
rounds together are one Gaussian mechanism of that sensitivity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from scipy.optimize import minimize
from scipy.signal import lfilter

from pfl_audit.errors import UsageError
from pfl_audit.privacy.loss_distribution import Floats
from pfl_audit.privacy.sampling import MOST_BANDS

MOST_ROUNDS: Final = 10_000
_DIGITS: Final = 4
"""Digits of a strategy: so few are the same on every machine, and the error is flat near its minimum."""


@dataclass(frozen=True)
class Correlation:
    """The strategy matrix of a run.

    Attributes:
        strategy: First column of the Toeplitz matrix before its columns are scaled, from 1; its length is b.
        rounds: Number T of rounds.
    """

    strategy: tuple[float, ...]
    rounds: int

    @cached_property
    def norms(self) -> Floats:
        """Norms of the columns before they are scaled, float64 (rounds,); the last ones are cut off."""
        squares = np.cumsum(np.square(self.strategy))
        return np.sqrt(squares[np.minimum(np.arange(self.rounds)[::-1], len(squares) - 1)])

    @property
    def inverse(self) -> Floats:
        """First column of the inverse of the Toeplitz matrix, float64 (rounds,)."""
        return np.asarray(lfilter([1.0], self.strategy, np.eye(1, self.rounds)[0]))

    def whiten(self, values: Floats) -> Floats:
        """C times values, float64 (rounds, n): of noise the independent numbers that it was made of."""
        return np.asarray(lfilter(self.strategy, [1.0], values / self.norms[:, None], axis=0))

    def matched(self, values: Floats) -> Floats:
        """C^T C times values, float64 (rounds, n): for an update in one round alone the sufficient statistic."""
        back = lfilter(self.strategy, [1.0], self.whiten(values)[::-1], axis=0)[::-1]
        return np.asarray(back / self.norms[:, None])

    @property
    def deviations(self) -> Floats:
        """Standard deviation of the noise of each round, in that of Z, float64 (rounds,)."""
        return self.norms * np.sqrt(np.cumsum(np.square(self.inverse)))

    @property
    def error(self) -> float:
        """Root mean square over rounds of the noise of the sum of all rounds so far, in the deviation of Z."""
        if len(self.strategy) == 1:  # the noise of t rounds has t times the variance of one, and rounds may be millions
            return float(np.sqrt((self.rounds + 1) / 2))
        inverse, row, total = self.inverse, np.zeros(self.rounds), 0.0
        for at, norm in enumerate(self.norms):
            row[: at + 1] += norm * inverse[at::-1]
            total += float(row @ row)
        return float(np.sqrt(total / self.rounds))


@lru_cache(maxsize=64)
def optimal_strategy(rounds: int, bands: int) -> tuple[float, ...]:
    """Strategy of the smallest error of the sums up to each round, for a Toeplitz matrix without scaled columns.

    Args:
        rounds: Number of rounds.
        bands: Number of bands, cut off at that of rounds.

    Raises:
        UsageError: There are more bands or rounds than are planned for.
    """
    if min(bands, rounds) == 1:  # also of a record that states more rounds than memory holds
        return (1.0,)
    if bands > MOST_BANDS or rounds > MOST_ROUNDS:
        raise UsageError(
            f"noise of {bands} bands over {rounds} rounds cannot be planned",
            f"Give --bands 1, or up to {MOST_BANDS} over {MOST_ROUNDS:,} rounds at most",
        )
    ones, weights = np.ones(rounds), np.arange(rounds, 0, -1.0)

    def loss(tail: Floats) -> tuple[float, Floats]:
        """Logarithm of squared error times squared sensitivity, and its gradient."""
        column = np.concatenate([[1.0], tail])
        sums = lfilter([1.0], column, ones)
        error, square = float(weights @ np.square(sums)), float(column @ column)
        back = lfilter([1.0], column, (weights * sums)[::-1])[::-1]
        slopes = np.array([back[lag:] @ sums[:-lag] for lag in range(1, len(column))])
        return float(np.log(error) + np.log(square)), 2 * tail / square - 2 * slopes / error

    lags = np.arange(1, min(bands, rounds))
    start = np.cumprod(1 - 0.5 / lags)  # square root of the matrix of prefix sums, the optimum of all bands
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 2000})
    return (1.0, *map(float, np.round(found.x, _DIGITS)))

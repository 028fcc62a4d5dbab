"""Intervals by resampling providers: what would other companies have shown?

The provider is the unit: its documents and questions stand and fall together, so it is drawn as a
whole. Where members are compared with non-members, each class keeps its size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEVEL = 0.95
RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A number with its uncertainty.

    Attributes:
        value: On the data as they are.
        low: Lower end of the two-sided interval at LEVEL.
        high: Upper end.
        samples: The values of all resamples, float (resamples,); finite ones only.
    """

    value: float
    low: float
    high: float
    samples: Floats

    def above(self, level: float) -> Callable[[float], float]:
        """How far it lies above a level, as a one-sided lower bound for each ``alpha``."""
        return lambda alpha: self.lower_bound(alpha) - level

    def lower_bound(self, alpha: float) -> float:
        """One-sided lower bound: it lies above the true value with probability ``alpha`` at most."""
        return float(np.quantile(self.samples, alpha)) if len(self.samples) else float("nan")


def bootstrap_weights(labels: Bools, rng: np.random.Generator, resamples: int = RESAMPLES) -> Floats:
    """How often each provider is drawn, stratified by label.

    Args:
        labels: bool (n,).
        rng: The only source of chance.
        resamples: How many draws.

    Returns:
        float (resamples, n); every row sums to n, and to the class sizes within each class.
    """
    weights = np.zeros((resamples, len(labels)))
    for value in (False, True):
        where = np.flatnonzero(labels == value)
        if len(where):
            weights[:, where] = rng.multinomial(len(where), np.full(len(where), 1 / len(where)), size=resamples)
    return weights


def estimate(value: float, samples: Floats, level: float = LEVEL) -> Estimate:
    """Percentile interval of a bootstrapped statistic; resamples without a value are left out."""
    finite = samples[np.isfinite(samples)]
    tail = (1 - level) / 2
    low, high = np.quantile(finite, [tail, 1 - tail]) if len(finite) else (np.nan, np.nan)
    return Estimate(float(value), float(low), float(high), finite)


def all_or_nothing(found: Estimate, units: int) -> Estimate:
    """A share of 0 or 1, which resampling cannot move, with its exact interval (Clopper-Pearson); others stay.

    Args:
        found: The share.
        units: That were right, or wrong, without exception.
    """
    tail = (1 - LEVEL) / 2
    if units and found.value == 0:
        return Estimate(0.0, 0.0, float(1 - tail ** (1 / units)), np.zeros(RESAMPLES))
    if units and found.value == 1:
        levels = (np.arange(RESAMPLES) + 0.5) / RESAMPLES
        return Estimate(1.0, float(tail ** (1 / units)), 1.0, levels ** (1 / units))
    return found


def group_mean(sums: Floats, counts: Floats) -> Callable[[Floats], Floats]:
    """Mean over the items of all providers, as a function of how often each provider counts.

    Args:
        sums: Sum of the item values of each provider, float (n,).
        counts: Number of items of each provider, float (n,).

    Returns:
        A function of weights (resamples, n) that gives float (resamples,), NaN where nothing is left.
    """

    def mean(weights: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            value: Floats = (weights @ sums) / (weights @ counts)
        return value

    return mean

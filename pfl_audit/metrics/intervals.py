"""Bootstrap intervals over providers, and exact intervals of shares.

The provider is the unit: its documents and questions stand and fall together, so it is drawn as a
whole. Where members are compared with non-members, each class keeps its size.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pfl_audit.metrics.arrays import Bools, Counts, Floats, Integers, by_rows

LEVEL = 0.95
RESAMPLES = 2000
_TAIL = (1 - LEVEL) / 2
_DRAWN = 1 << 22
"""Counts that are drawn at once, as int64."""


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

    def text(self, form: str = ".3f", factor: float = 1.0, unit: str = "") -> str:
        """The value with its interval, such as ``25.0 % [20.0, 30.0]``.

        Args:
            form: Format specification of the three numbers.
            factor: What they are multiplied by.
            unit: Text behind the value.
        """
        value, low, high = (f"{factor * part:{form}}" for part in (self.value, self.low, self.high))
        return f"{value}{unit} [{low}, {high}]"

    def minus(self, other: Estimate) -> Estimate:
        """How far it lies above another number, resample by resample."""
        return estimate(self.value - other.value, self.samples - other.samples)

    def above(self, level: float) -> Callable[[float], float]:
        """How far it lies above a level, as a one-sided lower bound for each ``alpha``."""
        return lambda alpha: self.lower_bound(alpha) - level

    def lower_bound(self, alpha: float) -> float:
        """One-sided lower bound: it lies above the true value with probability ``alpha`` at most."""
        return float(np.quantile(self.samples, alpha)) if len(self.samples) else float("nan")


def bootstrap_weights(labels: Bools, rng: np.random.Generator, resamples: int = RESAMPLES) -> Floats:
    """Bootstrap weights of the providers, stratified by label; ``bootstrap_counts`` takes half of the memory.

    Args:
        labels: bool (n,).
        rng: PCG64, as ``numpy.random.default_rng`` makes it.
        resamples: Number of resamples.

    Returns:
        float (resamples, n); every row sums to n, and to the class sizes within each class.
    """
    return np.ascontiguousarray(bootstrap_counts(labels, rng, resamples).T, dtype=np.float64)


def bootstrap_counts(
    labels: Bools, rng: np.random.Generator, resamples: int = RESAMPLES, groups: Integers | None = None
) -> Counts:
    """Weights of ``bootstrap_weights``, a column a resample: float32 (n, resamples), read-only.

    Args:
        labels: bool (n,).
        rng: As of ``bootstrap_weights``.
        resamples: Number of resamples.
        groups: Number of the group of each provider, int (n,), which is drawn as a whole: those of members, those of
            non-members and those of both each keep their number.
    """
    kinds = np.asarray(labels, dtype=np.int8)
    if groups is not None:
        numbers = np.unique(groups, return_inverse=True)[1]
        shares = np.bincount(numbers, labels) / np.bincount(numbers)
        kinds = np.where(shares == 1, 1, np.where(shares == 0, 0, 2)).astype(np.int8)
    counts, after = _counts(kinds.tobytes(), json.dumps(rng.bit_generator.state), resamples)
    rng.bit_generator.state = json.loads(after)
    return counts if groups is None else counts[numbers]


@lru_cache(maxsize=4)
def _counts(kinds: bytes, state: str, resamples: int) -> tuple[Counts, str]:
    """Counts, and the state of the generator afterwards.

    Args:
        kinds: Bytes of int8 (n,), 0 to 2: how many of a kind are drawn is kept.
        state: State of a PCG64 generator as JSON.
    """
    classes = np.frombuffer(kinds, dtype=np.int8)
    rng = np.random.Generator(np.random.PCG64())
    rng.bit_generator.state = json.loads(state)
    counts = np.zeros((len(classes), resamples), dtype=np.float32)
    for value in (0, 1, 2):
        where = np.flatnonzero(classes == value)
        rows = max(1, _DRAWN // max(1, len(where)))
        for start in range(0, resamples if len(where) else 0, rows):
            end = min(resamples, start + rows)
            counts[where, start:end] = rng.multinomial(
                len(where), np.full(len(where), 1 / len(where)), size=end - start
            ).T
    counts.flags.writeable = False  # it is shared
    return counts, json.dumps(rng.bit_generator.state)


def estimate(value: float, samples: Floats, level: float = LEVEL) -> Estimate:
    """Percentile interval of a bootstrapped statistic; resamples without a value are left out."""
    finite = samples[np.isfinite(samples)]
    tail = (1 - level) / 2
    low, high = np.quantile(finite, [tail, 1 - tail]) if len(finite) else (np.nan, np.nan)
    return Estimate(float(value), float(low), float(high), finite)


def all_or_nothing(found: Estimate, units: int, rng: np.random.Generator | None = None) -> Estimate:
    """A share of 0 or 1, which resampling cannot move, with its exact interval (Clopper-Pearson); others unchanged.

    Args:
        found: Estimate of the share.
        units: Number of independent units, all of them wrong or all right.
        rng: Draws as many resamples as the share has from Beta(1, units), whose quantiles are the exact bounds, so that
            differences of shares can be taken. Without it the resamples give the exact one-sided lower bound.
    """
    if not units or found.value not in (0.0, 1.0):
        return found
    none = found.value == 0.0
    bound = float(_TAIL ** (1 / units))
    low, high = (0.0, 1 - bound) if none else (bound, 1.0)
    if rng is not None:
        distance = rng.beta(1, units, size=len(found.samples) or RESAMPLES)
        samples = distance if none else 1.0 - distance
    else:
        levels = (np.arange(RESAMPLES) + 0.5) / RESAMPLES
        samples = np.zeros(RESAMPLES) if none else levels ** (1 / units)
    return Estimate(found.value, low, high, samples)


def exact_share(right: int, count: int) -> Estimate:
    """A share of independent items with its exact interval (Clopper-Pearson), without resamples; NaN of no item."""
    from scipy.stats import binomtest

    if not count:
        return Estimate(float("nan"), float("nan"), float("nan"), np.empty(0))
    between = binomtest(right, count).proportion_ci(LEVEL, method="exact")
    return Estimate(right / count, float(between.low), float(between.high), np.empty(0))


def exact_lower_bound(right: int, count: int, alpha: float) -> float:
    """One-sided lower bound of such a share (Clopper-Pearson) at level ``alpha``; NaN of no item."""
    from scipy.stats import binomtest

    if not count:
        return float("nan")
    return float(binomtest(right, count, alternative="greater").proportion_ci(1 - alpha, method="exact").low)


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


def resampled_mean(sums: Floats, counts: Floats, weights: Floats | Counts) -> Estimate:
    """Mean over the items of units, such as documents, that are resampled as a whole.

    Args:
        sums: Sum of each unit's items, float (n,).
        counts: Number of its items, float (n,).
        weights: Weights from ``bootstrap_weights``, or ``bootstrap_counts(...).T``, (resamples, n).

    Returns:
        The mean with its interval; the interval is NaN for a single unit.
    """
    mean = group_mean(sums, counts)
    value = float(mean(np.ones((1, len(sums))))[0])
    return estimate(value, by_rows(mean, weights) if len(sums) > 1 else np.empty(0))

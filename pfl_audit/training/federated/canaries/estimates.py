"""Estimates of noise multiplier, sampling rate, clipping norm and correlation of the noise, from projections."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import chi2

from pfl_audit.training.federated.canaries.run import Observation

_COMPARED = 1000
"""Number of rounds whose noise is compared with each other."""


@dataclass(frozen=True)
class Estimate:
    """An estimate with an interval; None where the data do not determine it, and the interval is then unbounded."""

    value: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Estimates:
    """Estimates of a run.

    Attributes:
        noise_multiplier: sigma, from the excluded canaries.
        sampling_rate: Probability that a provider of a participating client is drawn.
        clip: Norm of a clipped update, in clipping norms.
        correlation: Correlation of the noise of two rounds: the largest in absolute value of all pairs of the first
            1,000 rounds.
    """

    noise_multiplier: Estimate
    sampling_rate: Estimate
    clip: Estimate
    correlation: Estimate


def estimate(observation: Observation, coins: NDArray[np.bool_], error: float) -> Estimates:
    """Estimates, each of whose intervals misses the true value with probability ``error`` at most.

    The projections of excluded canaries are noise: their mean square has a chi-squared distribution. Those of included
    canaries are noise, plus the clipped norm c with probability q: their mean is q c, and their mean square is
    sigma² + q c². Intervals of q and c are normal approximations on the logarithmic scale (delta method).

    Args:
        observation: Observation of the run.
        coins: Which canaries are included, bool (canaries,).
        error: Above 0 and below 1.
    """
    noise = observation.projections[:, ~coins]
    square = float(np.mean(np.square(noise))) if noise.size else 0.0
    sigma = _noise_multiplier(square, noise.size, error)
    present = observation.projections[:, coins][observation.active[:, coins]]
    rate, clip = _rate_and_clip(present, square, noise.size, error)
    return Estimates(sigma, rate, clip, _correlation(noise[:_COMPARED], error))


def _noise_multiplier(square: float, count: int, error: float) -> Estimate:
    if not count:
        return Estimate(None, 0.0, math.inf)
    ends = chi2.ppf([1 - error / 2, error / 2], count)
    low, high = (math.sqrt(square * count / end) for end in ends)
    return Estimate(math.sqrt(square), low, high)


def _rate_and_clip(
    present: NDArray[np.float64], square: float, noise_count: int, error: float
) -> tuple[Estimate, Estimate]:
    unknown = Estimate(None, 0.0, 1.0), Estimate(None, 0.0, math.inf)
    if present.size < 2 or not noise_count:
        return unknown
    values = np.stack([present, np.square(present)])
    first, second = float(values[0].mean()), float(values[1].mean()) - square
    covariance = np.cov(values) / present.size
    covariance[1, 1] += 2 * square**2 / noise_count
    z = -float(ndtri(error / 2))
    if first <= z * math.sqrt(covariance[0, 0]) or second <= z * math.sqrt(covariance[1, 1]):
        return unknown
    found = []
    for powers in (np.array([2.0, -1.0]), np.array([-1.0, 1.0])):  # of mean and excess: q = a² / b and c = b / a
        value = math.exp(powers @ np.log([first, second]))
        weights = powers / (first, second)
        width = math.exp(z * math.sqrt(weights @ covariance @ weights))
        found.append(Estimate(value, value / width, value * width))
    return found[0], found[1]


def _correlation(noise: NDArray[np.float64], error: float) -> Estimate:
    """By Fisher's transformation, with the error divided among all pairs of rounds."""
    rounds, count = noise.shape
    pairs = rounds * (rounds - 1) // 2
    if not pairs or count < 4 or not noise.any(axis=1).all():
        return Estimate(None, -1.0, 1.0)
    units = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    table = np.triu(units @ units.T, 1)
    value = float(table.flat[np.argmax(np.abs(table))])
    z = math.atanh(min(max(value, -1 + 1e-15), 1 - 1e-15))
    width = -float(ndtri(error / (2 * pairs))) / math.sqrt(count - 2)
    return Estimate(value, math.tanh(z - width), math.tanh(z + width))

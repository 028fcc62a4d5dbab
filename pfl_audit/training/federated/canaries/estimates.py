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
        noise_multiplier: sigma, from directions that no update has.
        sampling_rate: Probability that a provider of a participating client is drawn.
        clip: Norm of a clipped update, in clipping norms.
        correlation: Correlation of the noise of two rounds, for the pair among the first 1,000 rounds whose correlation
            is the furthest from 0 by its own standard error.
    """

    noise_multiplier: Estimate
    sampling_rate: Estimate
    clip: Estimate
    correlation: Estimate


def estimate(observation: Observation, coins: NDArray[np.bool_], error: float) -> Estimates:
    """Estimates, each of whose intervals misses the true value with probability ``error`` at most.

    Projections on directions that no update has are noise: their mean square has a chi-squared distribution. Those of
    canaries that are providers are noise, plus the clipped norm c with probability q: their mean, with the sign of the
    update, is q c, and their mean square is sigma² + q c². Intervals of q and c are normal approximations on the
    logarithmic scale (delta method).

    Args:
        observation: Observation of the run.
        coins: Coins of the canaries, bool (canaries,).
        error: Above 0 and below 1.
    """
    noise = observation.noise[observation.heard]
    square = float(np.mean(np.square(noise))) if noise.size else 0.0
    sigma = _noise_multiplier(square, noise.size, error)
    included = np.ones_like(coins) if observation.replaced else coins
    signed = observation.projections * np.where(coins, 1.0, -1.0)
    present = signed[:, included][observation.active[:, included]]
    rate, clip = _rate_and_clip(present, square, noise.size, error)
    compared = observation.noise[:_COMPARED], observation.heard[:_COMPARED]
    return Estimates(sigma, rate, clip, _correlation(*compared, error))


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


def _correlation(noise: NDArray[np.float64], heard: NDArray[np.bool_], error: float) -> Estimate:
    """By Fisher's transformation, over the directions that have noise in both rounds; all pairs share the error."""
    noise, there = np.where(heard, noise, 0.0), heard.astype(np.float64)
    counts = np.triu(there @ there.T, 1)
    squares = np.square(noise) @ there.T  # sum of squares of one round, over the directions of another
    norms = np.sqrt(squares * squares.T)
    usable = (counts >= 4) & (norms > 0)
    pairs = int(usable.sum())
    if not pairs or (norms[counts >= 4] == 0).any():
        return Estimate(None, -1.0, 1.0)
    table = np.divide(noise @ noise.T, norms, out=np.zeros_like(norms), where=usable)
    scores = np.arctanh(np.clip(table, -1 + 1e-15, 1 - 1e-15))
    widths = 1 / np.sqrt(np.maximum(counts - 2, 1.0))
    at = np.unravel_index(np.argmax(np.abs(scores) / widths), scores.shape)
    width = -float(ndtri(error / (2 * pairs))) * float(widths[at])
    low, high = math.tanh(scores[at] - width), math.tanh(scores[at] + width)
    return Estimate(float(table[at]), low, high)

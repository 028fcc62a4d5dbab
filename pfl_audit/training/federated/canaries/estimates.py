"""Estimates of noise multiplier, rate and independence of the draws, clip and correlation of the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import chi2

from pfl_audit.training.federated.canaries.run import Observation

_COMPARED = 1000
"""Number of sums or messages whose noise is compared with each other."""


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
        correlation: Correlation of the noise of two sums, or messages, for the pair among the first 1,000 of them whose
            correlation is the furthest from 0; that which is stated is taken out before.
        draws: Covariance of the draws of a provider in two rounds, times the square of the clip; of a schedule the mean
            update in rounds that are not its turn, in clips.
    """

    noise_multiplier: Estimate
    sampling_rate: Estimate
    clip: Estimate
    correlation: Estimate
    draws: Estimate


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
    noise = observation.independent_noise
    square = float(np.mean(np.square(noise))) if noise.size else 0.0
    sigma = _noise_multiplier(square, noise.size, error)
    included = np.ones_like(coins) if observation.replaced else coins
    signs = np.where(coins, 1.0, -1.0)[included]
    there = observation.active[:, included]
    signed = observation.matched[:, included] * signs
    rate, clip = _rate_and_clip(signed[there], square, noise.size, error)
    if observation.correlation is None:
        draws = _covariance_of_draws(signed, there, error)
    else:
        outside = observation.projections[:, included] * signs * ~there
        draws = _mean_over_canaries(outside.sum(axis=0), (~there).sum(axis=0), error)
    return Estimates(sigma, rate, clip, _correlation(noise[:_COMPARED], error), draws)


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
    """By Fisher's transformation; all pairs of rows share the error."""
    rows, count = noise.shape
    pairs = rows * (rows - 1) // 2
    norms = np.sqrt(np.square(noise).sum(axis=1))
    if not pairs or count < 4 or not norms.all():
        return Estimate(None, -1.0, 1.0)
    table = np.triu(noise @ noise.T / np.outer(norms, norms), 1)
    value = float(table.flat[np.argmax(np.abs(table))])
    width = -float(ndtri(error / (2 * pairs))) / math.sqrt(count - 2)
    centre = math.atanh(min(max(value, -1 + 1e-15), 1 - 1e-15))
    return Estimate(value, math.tanh(centre - width), math.tanh(centre + width))


def _covariance_of_draws(signed: NDArray[np.float64], there: NDArray[np.bool_], error: float) -> Estimate:
    """Mean over canaries and pairs of rounds of the product of two projections, each less the mean of its round.

    Noise of two rounds is independent, so this is the covariance of being drawn: 0 for independent draws, q - q² if one
    draw serves all rounds, -q² if those of a pass are disjoint. The normal interval is over canaries.

    Args:
        signed: Projections with the sign of the update, float64 (rounds, canaries).
        there: Rounds in which the client of a canary takes part, bool (rounds, canaries).
        error: Above 0 and below 1.
    """
    counts = there.sum(axis=1, keepdims=True)
    means = (signed * there).sum(axis=1, keepdims=True) / np.maximum(counts, 1)
    centred = (signed - means) * there
    products = (np.square(centred.sum(axis=0)) - np.square(centred).sum(axis=0)) / 2
    rounds = there.sum(axis=0)
    pairs = rounds * (rounds - 1) / 2
    return _mean_over_canaries(products, pairs, error)


def _mean_over_canaries(sums: NDArray[np.float64], counts: NDArray[np.float64], error: float) -> Estimate:
    """Mean of numbers of which each canary has ``counts``, by their sums, both float64 (canaries,)."""
    total = float(counts.sum())
    if len(sums) < 2 or not total:
        return Estimate(None, -1.0, 1.0)
    value = float(sums.sum()) / total
    width = -float(ndtri(error / 2)) * math.sqrt(float(np.square(sums - value * counts).sum())) / total
    return Estimate(value, value - width, value + width)

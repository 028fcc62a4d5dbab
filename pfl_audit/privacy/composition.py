"""Composition of a discretised privacy loss by a tilted Fourier transform, with a bound of every error.

Tilting by exp(order * loss) centres the composed loss where delta is decided, so that rounding errors are small
relative to delta and not to 1. Rounding, truncation and what the transform wraps around are added to the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import fft
from scipy.signal import lfilter

from pfl_audit.privacy.loss_distribution import Floats, LossDistribution

_FURTHEST = 600.0
"""Log of the largest mass that is represented; smaller losses are left out."""


@dataclass(frozen=True)
class Window:
    """Range of the composed loss that is represented, and the tilt.

    Attributes:
        first: Index of the first point.
        cells: Number of points.
        tilt: Order of the tilt.
        top_order: Order at which the moment bounds the mass above the window (Chernoff).
    """

    first: int
    cells: int
    tilt: float
    top_order: float


def compose(loss: LossDistribution, rounds: int, window: Window) -> LossDistribution:
    """Upper bound of the loss of ``rounds`` independent rounds, within the window.

    Masses below the window are left out: the result bounds delta at epsilons from its first point on.
    """
    log_total = loss.log_moment(window.tilt)
    tilted = loss.masses * np.exp(window.tilt * loss.losses - log_total)
    wrapped = np.bincount((loss.first + np.arange(len(tilted))) % window.cells, tilted, minlength=window.cells)
    composed = fft.irfft(np.power(fft.rfft(wrapped), rounds), window.cells)
    indices = window.first + np.arange(window.cells)
    composed = np.maximum(composed[indices % window.cells], 0.0) + _rounding(window.cells, rounds)
    logs = rounds * log_total - window.tilt * loss.step * indices
    if logs[-1] > _FURTHEST:  # no mass of the window is a number: nothing is known
        return LossDistribution(np.zeros(1), window.first, loss.step, 1.0)
    kept = int(np.argmax(logs <= _FURTHEST))
    above = math.exp(min(0.0, rounds * loss.log_moment(window.top_order) - window.top_order * loss.step * indices[-1]))
    infinite = -math.expm1(rounds * math.log1p(-loss.infinite)) + above
    masses = composed[kept:] * np.exp(logs[kept:])
    return LossDistribution(masses, window.first + kept, loss.step, min(1.0, infinite))


def delta_of(loss: LossDistribution, epsilons: Floats) -> Floats:
    """Hockey-stick divergence at each epsilon: the mean of (1 - exp(epsilon - loss))+, float, at most 1.

    Args:
        loss: Distribution of the loss.
        epsilons: float (n,), none below the first point.
    """
    masses, scaled = _above(loss)
    index = np.clip(np.floor(epsilons / loss.step).astype(int) - loss.first, 0, len(masses) - 1)
    past = np.minimum(epsilons - loss.losses[index], loss.step)  # masses above the last point are zero
    return np.clip(loss.infinite + masses[index] - np.exp(past) * scaled[index], 0.0, 1.0)


def epsilon_of(loss: LossDistribution, delta: float) -> float:
    """Smallest epsilon of at least 0 at which ``delta_of`` is at most ``delta``; infinity if there is none."""
    if loss.infinite > delta:
        return math.inf
    masses, scaled = _above(loss)
    index = int(np.argmax(loss.infinite + masses - scaled <= delta))  # true at the last point
    if index == 0:
        return max(0.0, float(loss.losses[0]))
    # between two points delta is linear in exp(epsilon)
    past = math.log((loss.infinite + masses[index - 1] - delta) / scaled[index - 1])
    return max(0.0, float(loss.losses[index - 1]) + min(past, loss.step))


def _above(loss: LossDistribution) -> tuple[Floats, Floats]:
    """Sums over the points above each point: of the masses, and of mass * exp(point - loss); float (n,) each."""
    reversed_masses = np.concatenate([[0.0], loss.masses[:0:-1]])
    shrink = math.exp(-loss.step)
    scaled: Floats = lfilter([shrink], [1.0, -shrink], reversed_masses)
    return np.cumsum(reversed_masses)[::-1], scaled[::-1]


def _rounding(cells: int, rounds: int) -> float:
    """Bound of the error of a composed mass, relative to a total of 1.

    A transform adds at most 5 units of roundoff a level and unit of total mass (each level is one multiplication and
    one addition of complex numbers), and the power multiplies the error of its base by the number of rounds.
    """
    level = 5 * float(np.finfo(np.float64).eps) / 2
    return (2 * rounds + 1) * level * math.log2(cells)

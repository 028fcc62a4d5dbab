"""Discretised privacy loss of one round: an upper bound in both directions.

Source: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, "Connect the Dots: Tighter Discrete Approximations of
Privacy Loss Distributions". Between two points of a grid, the mass of both distributions moves to the two points such
that both masses are kept. The result dominates the original pair, and its hockey-stick curve touches the original one
at the points of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

Floats = NDArray[np.float64]

_ROUNDOFF = 32 * float(np.finfo(np.float64).eps)
"""Bound of the relative error of a normal tail, for an argument that is exact."""


@dataclass(frozen=True)
class LossDistribution:
    """Masses of a privacy loss on the grid ``step * (first + i)``.

    Attributes:
        masses: Probabilities under the first distribution of the pair, float (n,). Their sum may exceed 1 by the
            rounding errors that they bound.
        first: Index of the first point; point i is at ``step * (first + i)``.
        step: Distance of two points, above 0.
        infinite: Probability of an infinite loss.
    """

    masses: Floats
    first: int
    step: float
    infinite: float

    @property
    def losses(self) -> Floats:
        """Points of the grid, float (n,)."""
        return self.step * (self.first + np.arange(len(self.masses), dtype=np.float64))

    def log_moment(self, order: float) -> float:
        """Log of the sum of ``masses * exp(order * losses)``, infinite losses left out."""
        return float(logsumexp(order * self.losses, b=self.masses))


def round_loss(
    rate: float, noise: float, step: float, low: float, high: float, *, added: bool = False
) -> LossDistribution:
    """Loss of a Gaussian mechanism with Poisson sampling, for removing or for adding the sampled update.

    The pair is P = (1 - q) N(0, s^2) + q N(1, s^2) and Q = N(0, s^2), in units of the clipping norm. The loss is that
    of P against Q under P where an update is removed, and that of Q against P under Q where it is added.

    Args:
        rate: Sampling probability q, above 0, at most 1.
        noise: Noise multiplier s, above 0.
        step: Distance of two points of the grid.
        low: Loss below which all mass moves up to this point; below 0.
        high: Loss above which all mass counts as infinite; above 0, at most some 600.
        added: Direction.
    """
    first, last = int(np.floor(low / step)), int(np.ceil(high / step))
    points = step * (np.arange(-last, -first + 1) if added else np.arange(first, last + 1))
    odds = 1 + np.expm1(points) / rate  # exp((2 x - 1) / (2 s^2)) at the output x with this loss of P against Q
    with np.errstate(divide="ignore"):
        at = noise * np.log(np.maximum(odds, 0.0)) + 0.5 / noise  # x / s
    base, base_error = _cells(at)
    shifted, shifted_error = _cells(at - 1 / noise)
    weight = rate / -np.expm1(-step)
    upper = weight * (shifted - odds[:-1] * base)
    error = weight * (shifted_error + np.abs(odds[:-1]) * base_error) * (1 + 1 / noise**2)
    total = (1 - rate) * base + rate * shifted
    below, above = ndtr(at[0]), ndtr(-at[-1])
    if added:
        masses = _split(total, upper - error) * np.exp(-points)
        masses[-1] += above
        return LossDistribution(masses[::-1], first, step, float(below))
    masses = _split(total, upper + error)
    masses[0] += (1 - rate) * below + rate * ndtr(at[0] - 1 / noise)
    return LossDistribution(masses, first, step, float((1 - rate) * above + rate * ndtr(1 / noise - at[-1])))


def mixed_with_nothing(loss: LossDistribution, rate: float) -> LossDistribution:
    """Loss of a round that takes place with probability ``rate``, which the adversary sees; 0 must be on the grid."""
    if rate == 1:
        return loss
    masses = rate * loss.masses
    masses[-loss.first] += 1 - rate
    return LossDistribution(masses, loss.first, loss.step, rate * loss.infinite)


def symmetric_loss(loss: LossDistribution) -> LossDistribution:
    """Loss of sampling without replacement, where one provider is replaced.

    Source: Zhu, Dong and Wang 2022, "Optimal Accounting of Differential Privacy via Characteristic Function", theorem
    11: the hockey-stick curve is that of the mixture against the base at orders of at least 1, and its reflection
    below. The loss at -l has exp(-l) times the mass at l, and the rest of the mass has loss 0.

    Args:
        loss: Loss of the mixture against the base, with 0 on its grid.
    """
    positive = loss.masses[1 - loss.first :]
    mirrored = positive * np.exp(-loss.step * np.arange(1, len(positive) + 1))
    rest = max(0.0, 1.0 - loss.infinite - float(positive.sum() + mirrored.sum()))
    return LossDistribution(
        np.concatenate([mirrored[::-1], [rest], positive]), -len(positive), loss.step, loss.infinite
    )


@overload
def sampled_loss(outputs: float, rate: float, noise: float) -> float: ...
@overload
def sampled_loss(outputs: Floats, rate: float, noise: float) -> Floats: ...
def sampled_loss(outputs: float | Floats, rate: float, noise: float) -> float | Floats:
    """Loss of P against Q at ``outputs``, elementwise, in units of the clipping norm; the rate is below 1."""
    return np.logaddexp(np.log1p(-rate), np.log(rate) + (2 * outputs - 1) / (2 * noise**2))


def _cells(at: Floats) -> tuple[Floats, Floats]:
    """Standard normal mass between consecutive points, from the smaller tail, and a bound of its rounding error."""
    right = at[:-1] > 0
    left_tails, right_tails = ndtr(at), ndtr(-at)
    larger = np.where(right, right_tails[:-1], left_tails[1:])
    smaller = np.where(right, right_tails[1:], left_tails[:-1])
    inner = np.where(np.isfinite(at), at, 0.0)
    return larger - smaller, _ROUNDOFF * larger * (1 + inner[:-1] ** 2)


def _split(total: Floats, upper: Floats) -> Floats:
    """Masses of the points, from the mass of each cell and the part of it that moves to the cell's upper point."""
    upper = np.clip(upper, 0.0, total)
    masses = np.zeros(len(total) + 1)
    masses[1:] = upper
    masses[:-1] += total - upper
    return masses

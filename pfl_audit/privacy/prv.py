"""Upper bound of epsilon by numerical composition of privacy random variables (prv-accountant).

Source of the method and its error bounds: Gopi, Lee and Wutschitz 2021, "Numerical Composition of Differential
Privacy". The library composes; this module defines the privacy loss of one round.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import ArrayLike
from prv_accountant import PRVAccountant
from prv_accountant.accountant import compute_safe_domain_size
from scipy.fft import next_fast_len
from scipy.special import ndtr

from pfl_audit.privacy.loss_distribution import Floats
from pfl_audit.privacy.renyi import round_moments
from pfl_audit.privacy.sampling import Sampling

EPSILON_ERROR = 0.01
"""Error of epsilon, as in the published search; the slack of the upper bound is at most about twice that."""
FINE_EPSILON_ERROR = 0.002
"""Error of epsilon if clients are sampled, for which no values are published and few cells suffice."""
DELTA_ERROR = 1e-9
_MOST_CELLS = 1 << 22
"""Largest number of cells of the discretised variable: a few hundred MB, about ten seconds."""
_FINE_CELLS = 1 << 19


class PrvError(Exception):
    """The library gave no reliable bound; the message has the reason."""


class RoundLoss:
    """Privacy loss of one round, with participation of the client known to the adversary.

    With probability 1 - q_c the client does not participate, and the loss is 0. Otherwise the loss is that of the
    Gaussian mechanism with sampling rate p. Has the methods of prv-accountant's PrivacyRandomVariable.

    Args:
        sampling: Sampling of clients and providers; the number of rounds is ignored.
        noise_multiplier: Noise multiplier s, above 0.
        added: Whether the provider is added (loss of Q against P, drawn from Q) or removed (of P
            against Q, drawn from P). Neither is known to dominate the other under composition.
    """

    pm_inf = 0.0
    """Probability of an infinite loss."""

    def __init__(self, sampling: Sampling, noise_multiplier: float, *, added: bool) -> None:
        self._sampling, self._noise, self._added = sampling, noise_multiplier, added

    def cdf(self, t: ArrayLike) -> Floats:
        """Probability of a loss of at most ``t``, elementwise."""
        return self._mixed(t, upper=False)

    def probability(self, a: ArrayLike, b: ArrayLike) -> Floats:
        """Probability of a loss in (a, b]; computed from the upper tail if that is smaller, for precision."""
        low, high = self.cdf(a), self.cdf(b)
        return np.where(low > 0.5, self._mixed(a, upper=True) - self._mixed(b, upper=True), high - low)

    def rdp(self, alpha: float) -> float:
        """Rényi divergence of order ``alpha``, by which the library chooses its domain."""
        return float(round_moments(self._sampling, self._noise, np.array([alpha]))[0]) / (alpha - 1)

    def _mixed(self, t: ArrayLike, *, upper: bool) -> Floats:
        """Probability of a loss of at most t, or above t if ``upper``."""
        t = np.asarray(t, dtype=np.float64)
        atom = (t < 0) if upper else (t >= 0)
        rate = self._sampling.client_rate
        return (1 - rate) * atom + rate * self._sampled(t, upper=upper)

    def _sampled(self, t: Floats, *, upper: bool) -> Floats:
        p, s = self._sampling.provider_rate, self._noise
        if self._added:
            # loss <= t if the point is above the one with log(P / Q) = -t
            point = s * _log_odds(-t, p) + 0.5 / s
            return np.asarray(ndtr(point if upper else -point))
        point = s * _log_odds(t, p) + 0.5 / s
        sign = -1 if upper else 1
        return np.asarray((1 - p) * ndtr(sign * point) + p * ndtr(sign * (point - 1 / s)))


def prv_epsilon(sampling: Sampling, noise_multiplier: float, delta: float) -> float:
    """Upper bound of epsilon after all rounds, with participation of clients known to the adversary.

    Args:
        sampling: Sampling of clients and providers, and the number of rounds.
        noise_multiplier: Standard deviation of the noise divided by the clipping norm, above 0.
        delta: Target delta, between 0 and 1.

    Returns:
        The larger bound of adding and of removing a provider, at least 0.

    Raises:
        PrvError: The library fails numerically.
    """
    symmetric = sampling.provider_rate == 1
    directions = (False,) if symmetric else (False, True)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return max(
                _upper_bound(RoundLoss(sampling, noise_multiplier, added=added), sampling, delta)
                for added in directions
            )
    except PrvError:
        raise
    except Exception as error:  # the library asserts, raises and overflows in many ways
        raise PrvError(str(error).strip().rstrip(".") or type(error).__name__) from error


def _upper_bound(loss: RoundLoss, sampling: Sampling, delta: float) -> float:
    delta_error = min(DELTA_ERROR, delta / 1000)
    rounds = sampling.rounds
    error = EPSILON_ERROR if sampling.client_rate == 1 else FINE_EPSILON_ERROR
    reach, cells = _domain(loss, rounds, error, delta_error)
    if error < EPSILON_ERROR and cells > _FINE_CELLS:
        error = EPSILON_ERROR
        reach, cells = _domain(loss, rounds, error, delta_error)
    if cells > _MOST_CELLS:
        raise PrvError(f"it would need {cells:.1g} cells")
    accountant = PRVAccountant(
        [loss], eps_error=error, delta_error=delta_error, max_self_compositions=[rounds], eps_max=reach
    )
    low, middle, high = accountant.compute_epsilon(delta, [rounds])
    if not (math.isfinite(high) and low <= middle <= high):
        raise PrvError("its bounds contradict one another")
    return max(0.0, float(high))


def _domain(loss: RoundLoss, rounds: int, error: float, delta_error: float) -> tuple[float, float]:
    """Size of the domain of losses, and its number of cells.

    The library chooses the width of the cells by theorem 5.5 and uses two more than fit into the domain on both sides;
    the domain is enlarged until that number is efficient for Fourier transforms.
    """
    width = error / math.sqrt(rounds / 2 * math.log(12 / delta_error))
    half = compute_safe_domain_size([loss], [rounds], eps_error=error, delta_error=delta_error) / width
    if not half < _MOST_CELLS:
        return math.inf, 2 * half
    fast = next_fast_len(math.ceil(half) + 1, real=True)
    return (fast - 1.5) * width, 2.0 * fast


def _log_odds(t: Floats, rate: float) -> Floats:
    """Log of (e^t - (1 - p)) / p, minus infinity where that is not positive."""
    above = np.maximum(t, 0.0)
    right = above - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-above))
    with np.errstate(divide="ignore"):  # log of 0, where the loss cannot be that low
        left = np.log1p(np.maximum(np.expm1(np.minimum(t, 0.0)) / rate, -1.0))
    return np.where(t > 0, right, left)

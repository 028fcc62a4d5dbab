"""Upper bound of epsilon by composing privacy random variables numerically (prv-accountant).

Source of the method and its error bounds: Gopi, Lee and Wutschitz 2021, "Numerical Composition of
Differential Privacy". The library composes; what one round of ours looks like is specified here.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prv_accountant import PRVAccountant
from prv_accountant.accountant import compute_safe_domain_size
from prv_accountant.privacy_random_variables import PrivacyRandomVariable
from scipy.fft import next_fast_len
from scipy.special import ndtr

from pfl_audit.privacy.renyi import round_moments
from pfl_audit.privacy.sampling import Sampling

Floats = NDArray[np.float64]

EPSILON_ERROR = 0.01
"""Of the published search; what an upper bound gives away at the most is about twice that."""
FINE_EPSILON_ERROR = 0.002
"""Where participation is mixed, for which no figures are published, and few cells are enough."""
DELTA_ERROR = 1e-9
_MOST_CELLS = 1 << 22
"""Of the discretised variable: a few hundred MB of extended floats, and some ten seconds."""
_FINE_CELLS = 1 << 19


class PrvFailure(Exception):  # noqa: N818 - an outcome, and no mistake
    """The library gave no number that can be trusted; the text says why."""


class Round(PrivacyRandomVariable):  # type: ignore[misc] # the library is untyped
    """Privacy loss of one round of which the adversary knows whether the client took part.

    With probability 1 - q_c it did not, and the loss is 0. Else the loss is that of a Gaussian that is
    sampled with rate p.

    Args:
        sampling: Its rounds do not matter.
        noise_multiplier: s, above 0.
        added: Whether the provider is added (loss of Q against P, drawn from Q) or removed (of P
            against Q, drawn from P). Neither is known to dominate the other under composition.
    """

    def __init__(self, sampling: Sampling, noise_multiplier: float, *, added: bool) -> None:
        self._sampling, self._noise, self._added = sampling, noise_multiplier, added

    def cdf(self, t: Any) -> Floats:
        """Chance of a loss up to ``t``, of any shape."""
        return self._mixed(t, upper=False)

    def probability(self, a: Any, b: Any) -> Floats:
        """Chance of a loss in (a, b]; from the upper tail where that is the shorter one, to keep its digits."""
        low, high = self.cdf(a), self.cdf(b)
        return np.where(low > 0.5, self._mixed(a, upper=True) - self._mixed(b, upper=True), high - low)

    def rdp(self, alpha: float) -> float:
        """Divergence of order ``alpha``; the library chooses its domain by it."""
        return float(round_moments(self._sampling, self._noise, np.array([alpha]))[0]) / (alpha - 1)

    def _mixed(self, t: Any, *, upper: bool) -> Floats:
        """Chance of a loss up to t, or above t where ``upper``."""
        t = np.asarray(t, dtype=np.float64)
        atom = (t < 0) if upper else (t >= 0)
        rate = self._sampling.client_rate
        mixed: Floats = (1 - rate) * atom + rate * self._sampled(t, upper=upper)
        return mixed

    def _sampled(self, t: Floats, *, upper: bool) -> Floats:
        p, s = self._sampling.provider_rate, self._noise
        if self._added:
            # loss <= t where the point lies above the one with log(P / Q) = -t
            point = s * _log_odds(-t, p) + 0.5 / s
            return np.asarray(ndtr(point if upper else -point))
        point = s * _log_odds(t, p) + 0.5 / s
        sign = -1 if upper else 1
        return np.asarray((1 - p) * ndtr(sign * point) + p * ndtr(sign * (point - 1 / s)))


def prv_epsilon(sampling: Sampling, noise_multiplier: float, delta: float) -> float:
    """Upper bound of epsilon after all rounds, where participation of clients is known to the adversary.

    Args:
        sampling: Of clients and providers, and the number of rounds.
        noise_multiplier: Standard deviation of the noise over the clip, above 0.
        delta: 0 to 1, both excluded.

    Returns:
        The larger bound of adding and of removing a provider, 0 or more.

    Raises:
        PrvFailure: The numbers were too hard for the library.
    """
    symmetric = sampling.provider_rate == 1
    ways = (False,) if symmetric else (False, True)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return max(_upper_bound(Round(sampling, noise_multiplier, added=way), sampling, delta) for way in ways)
    except PrvFailure:
        raise
    except Exception as error:  # the library asserts, raises and overflows in many ways
        raise PrvFailure(str(error).strip().rstrip(".") or type(error).__name__) from error


def _upper_bound(one: Round, sampling: Sampling, delta: float) -> float:
    delta_error = min(DELTA_ERROR, delta / 1000)
    rounds = sampling.rounds
    error = EPSILON_ERROR if sampling.client_rate == 1 else FINE_EPSILON_ERROR
    reach, cells = _domain(one, rounds, error, delta_error)
    if error < EPSILON_ERROR and cells > _FINE_CELLS:
        error = EPSILON_ERROR
        reach, cells = _domain(one, rounds, error, delta_error)
    if cells > _MOST_CELLS:
        raise PrvFailure(f"it would need {cells:.1g} cells")
    accountant = PRVAccountant(
        one, eps_error=error, delta_error=delta_error, max_self_compositions=rounds, eps_max=reach
    )
    low, middle, high = accountant.compute_epsilon(delta, [rounds])
    if not (math.isfinite(high) and low <= middle <= high):
        raise PrvFailure("its bounds contradict one another")
    return max(0.0, float(high))


def _domain(one: Round, rounds: int, error: float, delta_error: float) -> tuple[float, float]:
    """How far losses reach, and the number of cells that makes.

    The library picks the width of the cells by theorem 5.5 and takes two more than fit into the reach on
    both sides; the reach is stretched until that number is one that Fourier transforms are fast at.
    """
    width = error / math.sqrt(rounds / 2 * math.log(12 / delta_error))
    half = compute_safe_domain_size([one], [rounds], eps_error=error, delta_error=delta_error) / width
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

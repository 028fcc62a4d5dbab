"""Rényi differential privacy of subsampled Gaussian rounds: a numerically robust upper bound.

One round compares Q = N(0, s^2) with P = (1 - q) N(0, s^2) + q N(1, s^2); both are projected on the
provider's clipped update, in units of the clip. Divergences are those of P from Q, which are never below
those of Q from P (Mironov, Talwar and Zhang 2019, "Rényi Differential Privacy of the Sampled Gaussian
Mechanism", theorem 5), so they hold whether the provider is added or removed. Groups of a fixed size,
of which a provider is replaced, have the dominating pair of Zhu, Dong and Wang 2022.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from pfl_audit.privacy.loss_distribution import Floats
from pfl_audit.privacy.pld import Kind
from pfl_audit.privacy.sampling import Sampling

ORDERS: tuple[float, ...] = (
    *(1 + tenth / 10 for tenth in range(1, 100)),
    *map(float, range(12, 64)),
    *(80.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 768.0, 1024.0),
)
"""Rényi orders: those of the published search, and larger ones for small epsilon."""
PUBLISHED_ORDERS = ORDERS[:151]
"""Orders of the competition's kit: 1.1 to 10.9 in tenths, and 12 to 63."""

_REACH = 14.0
"""Range of the integral beyond its outermost peaks, in standard deviations."""
_STEP = 0.1
"""Step of the integral in standard deviations; the trapezoid rule converges exponentially here."""
_SMALLEST_NOISE = 0.02
"""Noise below which sampling has almost no effect and the integral would need many points."""


def renyi_epsilon(
    sampling: Sampling,
    noise_multiplier: float,
    delta: float,
    kind: Kind = "poisson",
    among: tuple[float, ...] = ORDERS,
) -> float:
    """Upper bound of epsilon after all rounds, with participation of clients known to the adversary.

    Args:
        sampling: Sampling of clients and providers, and the number of rounds.
        noise_multiplier: Standard deviation of the noise divided by the clipping norm, above 0.
        delta: Target delta, between 0 and 1.
        kind: ``poisson``, or ``fixed-size`` with adjacency by replacing a provider.
        among: Rényi orders, above 1.

    Returns:
        The smallest bound over all orders, at least 0.
    """
    orders = np.array(among)
    divergences = sampling.rounds * round_moments(sampling, noise_multiplier, orders, kind) / (orders - 1)
    return to_epsilon(orders, divergences, delta)


def to_epsilon(orders: Floats, divergences: Floats, delta: float) -> float:
    """Epsilon from Rényi divergences (Canonne, Kamath and Steinke 2020, proposition 12).

    Args:
        orders: Rényi orders, float (n,), above 1.
        divergences: Rényi divergences of the whole run, float (n,).
        delta: Target delta, between 0 and 1.
    """
    bounds = divergences + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
    return max(0.0, float(np.min(bounds)))


def round_moments(sampling: Sampling, noise_multiplier: float, orders: Floats, kind: Kind = "poisson") -> Floats:
    """Log of E_Q[(P / Q)^a] of one round, as a mixture over known participation of the client.

    A round without the client reveals nothing and has moment 1, so that the mixture is
    1 - q_c + q_c exp((a - 1) r_a), with r_a the divergence of a round with the client.

    Args:
        sampling: Sampling of clients and providers; the number of rounds is ignored.
        noise_multiplier: Standard deviation of the noise divided by the clipping norm, above 0.
        orders: Rényi orders, float (n,), above 1.
        kind: ``poisson``, or ``fixed-size`` with adjacency by replacing a provider.

    Returns:
        (a - 1) times the divergence of order a, float (n,), at least 0.
    """
    moment = _log_moment_replaced if kind == "fixed-size" else _log_moment
    inside = np.array([moment(order, sampling.provider_rate, noise_multiplier) for order in orders])
    if sampling.client_rate == 1:
        return inside
    mixed: Floats = np.logaddexp(np.log1p(-sampling.client_rate), np.log(sampling.client_rate) + inside)
    return np.maximum(mixed, 0.0)


def _log_moment(order: float, rate: float, noise: float) -> float:
    """Log of E over z of N(0, s^2) of (1 - q + q exp((2 z - 1) / (2 s^2)))^a, by the trapezoid rule in log space.

    The integrand is a sum of bumps as wide as the noise, the first at 0 and the last at ``order``.
    """
    if rate == 1 or noise < _SMALLEST_NOISE:  # without sampling: exact, or a bound
        return order * (order - 1) / (2 * noise**2)
    points = np.arange(-_REACH, order / noise + _REACH + _STEP, _STEP)  # z in units of s
    ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + points / noise - 1 / (2 * noise**2))
    logs = order * ratio - points**2 / 2
    return max(0.0, float(logsumexp(logs) + np.log(_STEP / np.sqrt(2 * np.pi))))


def _log_moment_replaced(order: float, rate: float, noise: float) -> float:
    """The same for a group of a fixed size, of which one provider is replaced.

    The replaced provider moves the sum by two clipping norms at most, which is half the noise. The dominating pair of
    both directions has the positive losses of the Poisson pair, and their mirror images (Zhu, Dong and Wang 2022). Its
    moment is 1 plus the integral of e^(a l) - e^l + e^((1 - a) l) - 1 over the outputs z > 1/2, where the loss l > 0.
    """
    noise /= 2
    if rate == 1 or noise < _SMALLEST_NOISE:
        return order * (order - 1) / (2 * noise**2)
    points = 0.5 / noise + np.arange(0.0, order / noise + _REACH + _STEP, _STEP / 5)  # z in units of s, from 1/2
    loss = np.logaddexp(np.log1p(-rate), np.log(rate) + points / noise - 1 / (2 * noise**2))
    grown = np.log(-np.expm1(-(order - 1) * np.maximum(loss, 1e-300)))
    # e^(a l) - e^l + e^((1 - a) l) - 1 = (1 - e^((1 - a) l)) (e^(a l) - 1)
    logs = grown + order * loss + np.log(-np.expm1(-order * np.maximum(loss, 1e-300))) - points**2 / 2
    return float(np.logaddexp(0.0, logsumexp(logs) + np.log(_STEP / 5 / np.sqrt(2 * np.pi))))

"""Epsilon of a training run: the smaller of two upper bounds.

The PRV and the Rényi accountant both bound epsilon from above, and so does the smaller bound. That is nearly always
PRV's, whose slack is about 0.01; the slack of Rényi's is some tens of per cent. If PRV fails numerically, the Rényi
bound is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pfl_audit.errors import UsageError
from pfl_audit.privacy.prv import EPSILON_ERROR, PrvError, prv_epsilon
from pfl_audit.privacy.renyi import renyi_epsilon
from pfl_audit.privacy.sampling import Sampling

Accounting = Literal["valid", "published"]
"""``valid`` treats participation of clients as known; ``published`` is the figure of the papers, q = q_c p."""
Accountant = Literal["prv", "renyi"]

MIN_NOISE, MAX_NOISE = 1e-6, 1e9
"""Range of noise multipliers without overflow or underflow."""


@dataclass(frozen=True)
class PrivacySpent:
    """Privacy spent by a run.

    Attributes:
        epsilon: Smallest upper bound of epsilon.
        delta: Delta of the (epsilon, delta) guarantee.
        accountant: Accountant of the smallest bound.
        prv: Upper bound of the PRV accountant, or None if it failed.
        prv_failure: Reason of the failure, or None.
        renyi: Upper bound of the Rényi accountant.
        accounting: Treatment of participation. ``published`` is not a guarantee if clients are sampled.
    """

    epsilon: float
    delta: float
    accountant: Accountant
    prv: float | None
    prv_failure: str | None
    renyi: float
    accounting: Accounting


def privacy_spent(
    sampling: Sampling, noise_multiplier: float, delta: float, accounting: Accounting = "valid"
) -> PrivacySpent:
    """Epsilon after all rounds, at provider-level add/remove adjacency.

    Args:
        sampling: Sampling of clients and providers, and the number of rounds.
        noise_multiplier: Standard deviation of the noise divided by the clipping norm, above 0.
        delta: Target delta, between 0 and 1.
        accounting: ``valid`` or ``published``.

    Raises:
        UsageError: A value is out of range.
    """
    check_parameters(sampling, noise_multiplier, delta)
    assumed = sampling if accounting == "valid" else sampling.as_published()
    renyi = renyi_epsilon(assumed, noise_multiplier, delta)
    prv: float | None = None
    failure: str | None = None
    try:
        prv = prv_epsilon(assumed, noise_multiplier, delta)
    except PrvError as error:
        failure = str(error)
    if prv is not None and prv > renyi + 2 * EPSILON_ERROR:  # epsilon is at most the Rényi bound
        prv, failure = None, f"it gives {prv:.2f}, above the Rényi bound"
    if prv is not None and prv <= renyi:
        return PrivacySpent(prv, delta, "prv", prv, None, renyi, accounting)
    return PrivacySpent(renyi, delta, "renyi", prv, failure, renyi, accounting)


def check_parameters(sampling: Sampling, noise_multiplier: float, delta: float) -> None:
    """Raise UsageError if a value is out of range."""
    sampling.check()
    if not MIN_NOISE <= noise_multiplier <= MAX_NOISE:
        raise UsageError(
            f"the noise multiplier is {noise_multiplier:g}", f"Give a number from {MIN_NOISE:g} to {MAX_NOISE:g}"
        )
    if not 0 < delta < 1:
        raise UsageError(f"delta is {delta:g}", "Give a number above 0 and below 1, such as 1e-5")

"""What a run has spent: two upper bounds side by side, and the one that is the claim.

Both accountants bound epsilon from above, and so does the smaller of the two. That is nearly always PRV's,
whose slack is a hundredth; Rényi's is some tens of per cent. Where PRV fails numerically Rényi's stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pfl_audit.errors import UsageError
from pfl_audit.privacy.prv import EPSILON_ERROR, PrvFailure, prv_epsilon
from pfl_audit.privacy.renyi import renyi_epsilon
from pfl_audit.privacy.sampling import Sampling

Accounting = Literal["valid", "published"]
"""``valid`` treats participation of clients as known; ``published`` is the papers' figure, q = q_c p."""
Accountant = Literal["prv", "renyi"]

LEAST_NOISE, MOST_NOISE = 1e-6, 1e9
"""Noise multipliers between which the arithmetic neither overflows nor vanishes."""


@dataclass(frozen=True)
class Spent:
    """Epsilon of a run.

    Attributes:
        epsilon: The claim.
        delta: It goes with.
        accountant: Whose bound the claim is.
        prv: PRV's upper bound, or None where it failed.
        prv_failure: Why it failed, or None.
        renyi: The Rényi bound.
        accounting: How participation was treated. What is ``published`` is no guarantee where clients are sampled.
    """

    epsilon: float
    delta: float
    accountant: Accountant
    prv: float | None
    prv_failure: str | None
    renyi: float
    accounting: Accounting


def spent(sampling: Sampling, noise_multiplier: float, delta: float, accounting: Accounting = "valid") -> Spent:
    """Epsilon after all rounds, at provider-level add/remove adjacency.

    Args:
        sampling: Of clients and providers, and the number of rounds.
        noise_multiplier: Standard deviation of the noise over the clip, above 0.
        delta: 0 to 1, both excluded.
        accounting: ``valid`` or ``published``.

    Raises:
        UsageError: A value is out of its range.
    """
    require_sound(sampling, noise_multiplier, delta)
    seen = sampling if accounting == "valid" else sampling.as_published()
    renyi = renyi_epsilon(seen, noise_multiplier, delta)
    prv: float | None = None
    failure: str | None = None
    try:
        prv = prv_epsilon(seen, noise_multiplier, delta)
    except PrvFailure as error:
        failure = str(error)
    if prv is not None and prv > renyi + 2 * EPSILON_ERROR:  # true epsilon lies below Rényi's
        prv, failure = None, f"it gives {prv:.2f}, above the Rényi bound"
    if prv is not None and prv <= renyi:
        return Spent(prv, delta, "prv", prv, None, renyi, accounting)
    return Spent(renyi, delta, "renyi", prv, failure, renyi, accounting)


def require_sound(sampling: Sampling, noise_multiplier: float, delta: float) -> None:
    """Raise UsageError where a value is out of its range."""
    sampling.check()
    if not LEAST_NOISE <= noise_multiplier <= MOST_NOISE:
        raise UsageError(
            f"the noise multiplier is {noise_multiplier:g}", f"Give a number from {LEAST_NOISE:g} to {MOST_NOISE:g}"
        )
    if not 0 < delta < 1:
        raise UsageError(f"delta is {delta:g}", "Give a number above 0 and below 1, such as 1e-5")

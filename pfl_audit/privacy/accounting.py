"""Epsilon of a training run: the smaller of two upper bounds.

The privacy-loss distribution (PLD) bounds epsilon within 0.5 % or 1e-4 of the exact value for sampling rates from 1e-3,
is looser by some per cent for rarer draws (docs/accounting.md), and is nearly always the
smaller bound. The Rényi bound covers what no grid can represent, such as 100,000 rounds of little noise or a delta of
1e-100. PRV, the accountant of the papers, gives their published figures and is otherwise a comparison: at extreme
settings it fails, or depends on the rounding of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from pfl_audit.errors import UsageError
from pfl_audit.privacy.pld import Kind, SampledGaussian
from pfl_audit.privacy.prv import PrvError, prv_epsilon
from pfl_audit.privacy.renyi import PUBLISHED_ORDERS, renyi_epsilon
from pfl_audit.privacy.sampling import Sampling

Accounting = Literal["valid", "published"]
"""``valid`` treats participation of clients as known; ``published`` is the figure of the papers, q = q_c p: by PRV, and
of groups of a fixed size by Rényi divergences of Poisson draws (pfl-docvqa-competition, appendix B)."""
Accountant = Literal["pld", "prv", "renyi"]

MIN_NOISE, MAX_NOISE = 1e-6, 1e9
"""Range of noise multipliers without overflow or underflow."""
MIN_DELTA: Final = 1e-300
"""Smallest delta that is accounted: shares of it are still numbers."""


@dataclass(frozen=True)
class PrivacySpent:
    """Privacy spent by a run.

    Attributes:
        epsilon: Smallest upper bound of epsilon.
        delta: Delta of the (epsilon, delta) guarantee.
        accountant: Accountant of the smallest bound.
        renyi: Upper bound of the Rényi accountant.
        accounting: Treatment of participation. ``published`` is not a guarantee if clients are sampled.
    """

    epsilon: float
    delta: float
    accountant: Accountant
    renyi: float
    accounting: Accounting


def privacy_spent(
    sampling: Sampling,
    noise_multiplier: float,
    delta: float,
    accounting: Accounting = "valid",
    kind: Kind = "poisson",
) -> PrivacySpent:
    """Epsilon of a provider after all rounds.

    Args:
        sampling: Sampling of clients and providers, and the number of rounds.
        noise_multiplier: Standard deviation of the noise divided by the clipping norm, above 0.
        delta: Target delta, between 0 and 1.
        accounting: ``valid`` or ``published``. The published figure takes every kind of draw for Poisson sampling; that
            of groups of a fixed size has the Rényi orders of the competition's kit.
        kind: ``poisson``, with adjacency by adding or removing a provider, or ``fixed-size``, by replacing one.

    Raises:
        UsageError: A value is out of range.
    """
    check_parameters(sampling, noise_multiplier, delta)
    return _spent(sampling, noise_multiplier, delta, accounting, kind)


@lru_cache(maxsize=1024)
def _spent(
    sampling: Sampling, noise_multiplier: float, delta: float, accounting: Accounting, kind: Kind
) -> PrivacySpent:
    """As ``privacy_spent``: a plan, its rounds and its record ask the same, and an answer takes up to a second."""
    bound: float | None
    main: Accountant
    if accounting == "published" and kind == "fixed-size":
        bound = renyi_epsilon(sampling.as_published(), noise_multiplier, delta, among=PUBLISHED_ORDERS)
        return PrivacySpent(bound, delta, "renyi", bound, accounting)
    if accounting == "published":
        sampling, kind, main = sampling.as_published(), "poisson", "prv"
        bound, _ = prv_comparison(sampling, noise_multiplier, delta)
    else:
        main = "pld"
        bound = SampledGaussian(sampling, noise_multiplier, kind).epsilon(delta)
    renyi = renyi_epsilon(sampling, noise_multiplier, delta, kind)
    if bound is None or renyi < bound:
        bound, main = renyi, "renyi"
    return PrivacySpent(bound, delta, main, renyi, accounting)


def prv_comparison(sampling: Sampling, noise_multiplier: float, delta: float) -> tuple[float | None, str | None]:
    """Epsilon by the PRV accountant for comparison, or the reason of its failure."""
    try:
        return prv_epsilon(sampling, noise_multiplier, delta), None
    except PrvError as error:
        return None, str(error)


def check_parameters(sampling: Sampling, noise_multiplier: float, delta: float) -> None:
    """Raise UsageError if a value is out of range."""
    sampling.check()
    if not MIN_NOISE <= noise_multiplier <= MAX_NOISE:
        raise UsageError(
            f"the noise multiplier is {noise_multiplier:g}", f"Give a number from {MIN_NOISE:g} to {MAX_NOISE:g}"
        )
    if not MIN_DELTA <= delta < 1:
        raise UsageError(f"delta is {delta:g}", f"Give a number from {MIN_DELTA:g} to below 1, such as 1e-5")

"""Calibration of the noise multiplier to a target epsilon.

The search doubles 10 until epsilon is low enough and then bisects, so that its results have the form 20 k / 2^n and
reproduce published values to the last digit (Opacus' get_noise_multiplier, as in the competition's kit).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import Accounting, check_parameters, privacy_spent, prv_comparison
from pfl_audit.privacy.pld import Kind
from pfl_audit.privacy.renyi import renyi_epsilon
from pfl_audit.privacy.sampling import Sampling

AccountantChoice = Literal["auto", "prv", "renyi"]
"""Accountant whose bound must meet the target; ``auto`` takes the smaller bound of PLD and Rényi."""

TOLERANCE = 0.01
"""Largest distance of epsilon below the target, as in the published search."""
_SHARE = 1e-3
"""The same for ``auto``, as a share of the target."""
_FIRST = 10.0
_HIGHEST = 1e6
_CLOSEST = 1e-7
"""Relative width at which the bisection ends if epsilon jumps, as it does where PRV starts to fail."""


def calibrate_noise(
    epsilon: float,
    delta: float,
    sampling: Sampling,
    accounting: Accounting = "valid",
    accountant: AccountantChoice = "auto",
    kind: Kind = "poisson",
) -> float:
    """Smallest noise multiplier of the search that keeps a run within (epsilon, delta).

    Args:
        epsilon: Target epsilon, above 0.
        delta: Target delta, between 0 and 1.
        sampling: Sampling of clients and providers, and the number of rounds.
        accounting: ``valid`` or ``published``.
        accountant: Accountant whose bound must meet the target. ``prv`` is not met where PRV fails.
        kind: How providers are drawn; PRV knows Poisson draws only.

    Returns:
        Standard deviation of the noise divided by the clipping norm. Its epsilon is at most the target, and by no more
        than 0.01 below (``auto``: 0.1 % of the target, if that is less), except at jumps.

    Raises:
        UsageError: A value is out of range, or no noise reaches the target.
    """
    check_parameters(sampling, 1.0, delta)
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise UsageError(f"the target epsilon is {epsilon:g}", "Give a number above 0")
    epsilon_of = _epsilon_function(delta, sampling, accounting, accountant, kind)
    tolerance = min(TOLERANCE, _SHARE * epsilon) if accountant == "auto" and accounting == "valid" else TOLERANCE
    low, high, reached = 0.0, _FIRST, math.inf
    while reached > epsilon:
        high *= 2
        if high > _HIGHEST:
            raise UsageError(
                f"epsilon {epsilon:g} cannot be reached at delta {delta:g} in {sampling.rounds} rounds",
                "Raise epsilon or delta, or sample fewer providers",
            )
        reached = epsilon_of(high)
    while epsilon - reached > tolerance and high - low > _CLOSEST * high:
        middle = (low + high) / 2
        tried = epsilon_of(middle)
        if tried < epsilon:
            high, reached = middle, tried
        else:
            low = middle
    return high


def _epsilon_function(
    delta: float, sampling: Sampling, accounting: Accounting, accountant: AccountantChoice, kind: Kind
) -> Callable[[float], float]:
    assumed, drawn = (sampling, kind) if accounting == "valid" else (sampling.as_published(), "poisson")

    def by_prv(noise: float) -> float:
        found, _ = prv_comparison(assumed, noise, delta)
        return math.inf if found is None else found

    if accountant == "prv":
        return by_prv
    if accountant == "renyi":
        return lambda noise: renyi_epsilon(assumed, noise, delta, drawn)
    return lambda noise: privacy_spent(sampling, noise, delta, accounting, kind).epsilon

"""The noise for a target epsilon, by the ladder of the published search.

The search doubles 10 until epsilon is low enough and then bisects, so that its results have the form
20 k / 2^n and published values come out to the last digit (Opacus' get_noise_multiplier, which the
competition's kit follows).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import Accounting, require_sound, spent
from pfl_audit.privacy.renyi import renyi_epsilon
from pfl_audit.privacy.sampling import Sampling

Choice = Literal["auto", "prv", "renyi"]
"""Whose bound must meet the target; ``auto`` takes the claim."""

TOLERANCE = 0.01
"""How far below the target epsilon may stay."""
_FIRST = 10.0
_HIGHEST = 1e6
_CLOSEST = 1e-7
"""Relative width at which the bisection ends where epsilon jumps, as it does where PRV begins to fail."""


def noise_for(
    epsilon: float, delta: float, sampling: Sampling, accounting: Accounting = "valid", accountant: Choice = "auto"
) -> float:
    """Smallest noise multiplier on the ladder that keeps a run within (epsilon, delta).

    Args:
        epsilon: Target, above 0.
        delta: 0 to 1, both excluded.
        sampling: Of clients and providers, and the number of rounds.
        accounting: ``valid`` or ``published``.
        accountant: Whose bound must meet the target. ``prv`` counts as unmet where PRV fails.

    Returns:
        Standard deviation of the noise over the clip; epsilon at it lies in (target - 0.01, target], but
        for jumps.

    Raises:
        UsageError: A value is out of its range, or no noise reaches the target.
    """
    require_sound(sampling, 1.0, delta)
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise UsageError(f"the target epsilon is {epsilon:g}", "Give a number above 0")
    cost = _cost(delta, sampling, accounting, accountant)
    low, high, reached = 0.0, _FIRST, math.inf
    while reached > epsilon:
        high *= 2
        if high > _HIGHEST:
            raise UsageError(
                f"epsilon {epsilon:g} cannot be reached at delta {delta:g} in {sampling.rounds} rounds",
                "Raise epsilon or delta, or sample fewer providers",
            )
        reached = cost(high)
    while epsilon - reached > TOLERANCE and high - low > _CLOSEST * high:
        middle = (low + high) / 2
        tried = cost(middle)
        if tried < epsilon:
            high, reached = middle, tried
        else:
            low = middle
    return high


def _cost(delta: float, sampling: Sampling, accounting: Accounting, accountant: Choice) -> Callable[[float], float]:
    if accountant == "renyi":
        seen = sampling if accounting == "valid" else sampling.as_published()
        return lambda noise: renyi_epsilon(seen, noise, delta)

    def cost(noise: float) -> float:
        found = spent(sampling, noise, delta, accounting)
        if accountant == "auto":
            return found.epsilon
        return math.inf if found.prv is None else found.prv

    return cost

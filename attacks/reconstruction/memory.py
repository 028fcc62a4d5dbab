"""Level of a finding that the model remembers forms, which is a membership signal and no value put back."""

from __future__ import annotations

from pfl_audit.attacks.guesses.putting_back import FEWEST_UNITS
from pfl_audit.core.results import Level
from pfl_audit.core.verdict import Budget, at_most_weak, level_of
from pfl_audit.metrics.intervals import Estimate


def memory_level(found: Estimate, new: Estimate | None, p_value: float | None, units: int, budget: Budget) -> Level:
    """A weak sign at most, where both are sure: better than public knowledge, and more so than on new forms.

    Of the second the bootstrap and a permutation of the units must be sure alike; where the permutation alone is, the
    finding is unresolved. Without new forms, memory of these forms cannot be distinguished from knowing their kind.

    Args:
        found: How far the attack lies above public knowledge on private forms.
        new: The same on new forms, or None.
        p_value: p-value of the permutation test between them, or None.
        units: Units on the side that has fewer.
    """
    effects, p_values = [found.above(0.0)], []
    if new is not None and p_value is not None:
        effects.append(found.minus(new).above(0.0))
        p_values.append(p_value)
    significant = any(p <= budget.weak for p in p_values)
    return at_most_weak(level_of(p_values, effects, budget, enough=units >= FEWEST_UNITS, resolved=not significant))


def smallest_difference(found: Estimate, new: Estimate | None, permuted: float | None, alpha: float) -> float:
    """Smallest difference that would have been found: every bound and test of ``memory_level`` begins above 0 there.

    Args:
        found: How far the attack lies above public knowledge on private forms.
        new: The same on new forms, or None.
        permuted: Smallest difference of the two that is significant by permutation, or None.
        alpha: Level.

    Returns:
        Between private and new forms, or over public knowledge without new ones; 0 where nothing spreads.
    """
    bounded = [found] if new is None else [found, found.minus(new)]
    needed = [one.value - one.lower_bound(alpha) for one in bounded]
    return max(0.0, permuted or 0.0, *needed)

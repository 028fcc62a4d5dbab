"""The rule for findings, and its error budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pfl_audit.core.numbers import headline, in_format
from pfl_audit.core.schema import Check, Level

LEAK_BUDGET: Final = 0.05
"""Chance that an audit of a model that leaks nothing reports a leak, shared out among its findings (Bonferroni)."""
WEAK_BUDGET: Final = 0.10
"""Chance that it reports a leak or a weak sign, shared out in the same way."""
COMPARED: Final = 0.05
"""Level at which a finding must exceed what a control or the documents alone show (one-sided)."""

Bound = Callable[[float], float]
"""One-sided lower bound of a difference at a level."""


@dataclass(frozen=True)
class Budget:
    """Share of the error budget of one finding.

    Attributes:
        leak: Chance of a leak where there is none.
        weak: Chance of a weak sign, or of a leak, where there is none.
    """

    leak: float
    weak: float

    @classmethod
    def shared(cls, findings: int) -> Budget:
        """Equal shares of the audit's budgets."""
        return cls(LEAK_BUDGET / max(1, findings), WEAK_BUDGET / max(1, findings))


def level_of(
    p_values: Sequence[float],
    effects: Sequence[Bound],
    budget: Budget,
    *,
    compared: Sequence[Bound] = (),
    enough: bool = True,
    resolved: bool = True,
) -> Level:
    """Level of a finding by the one rule of all attacks: permutation test and bootstrap interval agree.

    An attack that cannot make one of the two passes no p-value, or no bound, and says there why.

    Args:
        p_values: p-values of permutation tests over the unit, or of an exact test.
        effects: Lower bounds of how far the number lies above chance.
        budget: Budget of the finding.
        compared: Lower bounds of how far it lies above what explains it without a leak: a control, the documents alone.
        enough: Whether there are data enough to test at all.
        resolved: Whether an effect that matters would have been found, so that "none" may be said.

    Returns:
        ``leak`` where every test and bound agrees at the budget of a leak, ``weak`` where they do at that of a weak
        sign, else ``none``, or ``unresolved`` where an effect that matters might have been missed.

    Raises:
        ValueError: There is neither a p-value nor a bound.
    """
    if not p_values and not effects:
        raise ValueError("a finding needs a test or a bound")
    if not enough or any(math.isnan(bound(budget.weak)) for bound in effects):
        return "unresolved"
    if all(bound(COMPARED) > 0.0 for bound in compared):
        for level, share in (("leak", budget.leak), ("weak", budget.weak)):
            if all(p <= share for p in p_values) and all(bound(share) > 0.0 for bound in effects):
                return "leak" if level == "leak" else "weak"
    return "none" if resolved else "unresolved"


def at_most_weak(level: Level) -> Level:
    """The level of what is no leak by itself, or cannot be distinguished from one."""
    return "weak" if level == "leak" else level


def with_interval_told(check: Check, budget: Budget) -> Check:
    """Return a check whose finding tells how its level and the printed interval of its number differ, if they do.

    Intervals are two-sided at 95 % and of one number; a level rests on one-sided tests or bounds at the share of the
    finding, of which some compare the number with others. So a sign may stand beside an interval that holds chance, and
    none beside one that does not.

    Args:
        check: Of any family.
        budget: Budget that its level was decided with.
    """
    finding, shown = check.finding, headline(check)
    if finding is None or shown is None or shown.ci is None or shown.chance is None:
        return check
    found = finding.level in ("leak", "weak")
    if found == (shown.ci[0] > shown.chance):
        return check
    share = budget.leak if finding.level == "leak" else budget.weak
    interval = f"The interval of the number is two-sided at {100 * (shown.level or 0.95):.3g} %"
    chance = in_format(shown.chance, shown.format)
    if found:
        told = f"{interval} and holds {chance}; the level rests on one-sided tests at {100 * share:.2g} %"
    else:
        needs = f"a sign needs enough data, and that every test of the finding agrees at {100 * share:.2g} %"
        told = f"{interval} and of this number alone, without {chance}; {needs}"
    return check.model_copy(update={"finding": finding.model_copy(update={"text": f"{finding.text} {told}."})})

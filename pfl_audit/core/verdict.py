"""The rule for findings, the verdict over all of them, and the exit code."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pfl_audit.core.results import Check, Gate, Level, Verdict
from pfl_audit.errors import EXIT_FINDING, EXIT_NOT_AUDITED, EXIT_OK

LEAK_BUDGET: Final = 0.05
"""Chance that an audit of a model that leaks nothing reports a leak, shared out among its findings (Bonferroni)."""
WEAK_BUDGET: Final = 0.10
"""Chance that it reports a leak or a weak sign, shared out in the same way."""
COMPARED: Final = 0.05
"""Level at which a finding must exceed what a control or the documents alone show (one-sided)."""
COMPARED_ATTACKS: Final = 0.025
"""The same where resampling keeps the decisions of an attack, so that its bounds are too short."""

FailOn = Literal["leak", "weak", "never"]
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


def decide(
    checks: Sequence[Check], fail_on: FailOn, required: Collection[str] = (), *, audited: str = "the model"
) -> Verdict:
    """The verdict over all checks; what did not run never counts as a pass.

    Args:
        checks: All of the audit.
        fail_on: The gate.
        required: Ids of the checks that were asked for by name: what they leave unresolved makes the audit incomplete.
            Other unresolved findings are counted in the summary.
        audited: What the findings are about, in a sentence.
    """
    found = {
        level: [check.id for check in checks if check.finding and check.finding.level == level]
        for level in ("leak", "weak", "none", "unresolved")
    }
    needed = [check for check in checks if check.status == "ran" or check.required]
    missing = [check.id for check in needed if check.status != "ran"]
    missing += [name for name in found["unresolved"] if name in required]
    over = {"leak": found["leak"], "weak": found["leak"] + found["weak"], "never": []}[fail_on]
    ran = sum(len(ids) for ids in found.values())
    if found["leak"]:
        status: Literal["leaks", "no-evidence", "incomplete"] = "leaks"
        count = len(found["leak"])
        subject = f"{audited[:1].upper()}{audited[1:]}"
        gives = f"{subject} gives away training data"
        summary = f"{gives}: {count} of {ran} findings {'is' if count == 1 else 'are'} a leak."
    elif missing or len(found["unresolved"]) == ran:
        status = "incomplete"
        summary = f"No leak was found, but {len(missing)} of {len(needed)} checks could not be made or resolved."
    else:
        status = "no-evidence"
        made = "The one finding is no leak" if ran == 1 else f"None of {ran} findings is a leak"
        summary = f"{made}. That is no proof that there is none."
    if found["unresolved"] and status == "no-evidence":
        summary += f" {len(found['unresolved'])} could not be resolved with these documents."
    if found["weak"]:
        summary += f" {len(found['weak'])} more showed a weak sign."
    return Verdict(status=status, gate=Gate(fail_on=fail_on, over=over), summary=summary)


def exit_code(verdict: Verdict, checks: Sequence[Check]) -> int:
    """1 over the gate; 3 where a check did not run or nothing was resolved; else 0."""
    if verdict.gate.over:
        return EXIT_FINDING
    lacking = any(check.status != "ran" and check.required for check in checks)
    if not checks or lacking or verdict.status == "incomplete":
        return EXIT_NOT_AUDITED
    return EXIT_OK

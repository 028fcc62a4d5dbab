"""The rule for findings, the verdict over all of them, and the exit code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pfl_audit.core.exemptions import exempt
from pfl_audit.core.gate_policy import GatePolicy, Requirements
from pfl_audit.core.gates import GUARANTEE, hold, hold_guarantee
from pfl_audit.core.results import Check, Data, Gate, Level, Verdict
from pfl_audit.errors import EXIT_FINDING, EXIT_NOT_AUDITED, EXIT_OK
from pfl_audit.privacy.guarantee import GuaranteeReview

LEAK_BUDGET: Final = 0.05
"""Chance that an audit of a model that leaks nothing reports a leak, shared out among its findings (Bonferroni)."""
WEAK_BUDGET: Final = 0.10
"""Chance that it reports a leak or a weak sign, shared out in the same way."""
COMPARED: Final = 0.05
"""Level at which a finding must exceed what a control or the documents alone show (one-sided)."""
COMPARED_ATTACKS: Final = 0.025
"""The same where resampling keeps the decisions of an attack, so that its bounds are too short."""

NOTHING: Final = "any check"
"""What is required of every audit: one check that ran, and of those with a finding one that is resolved, by which more
than utility could have come out where there is such a finding."""

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
    checks: Sequence[Check],
    fail_on: FailOn,
    policy: GatePolicy | None = None,
    *,
    guarantee: GuaranteeReview | None = None,
    contradicted: bool = False,
    datasets: Sequence[Data] = (),
    audited: str = "the model",
) -> Verdict:
    """The verdict over all checks, and the gate; what did not run never counts as a pass.

    Args:
        checks: All of the audit.
        fail_on: Findings that make the command fail.
        policy: Requirements, gates by number, waivers and baseline; none if not given.
        guarantee: Review of the privacy guarantee, for gates on it.
        contradicted: Whether an attack measured more than the guarantee allows.
        datasets: What the audit asked about, for the comparison with the baseline.
        audited: What the findings are about, in a sentence.
    """
    policy = policy or GatePolicy()
    found = {
        level: [check.id for check in checks if check.finding and check.finding.level == level]
        for level in ("leak", "weak", "none", "unresolved")
    }
    ran = sum(map(len, found.values()))
    lacking = _unmet(policy.named, checks) + _unmet(policy.required, checks)
    made = [check for check in checks if check.finding]
    if not any(map(is_audited, [check for check in made if not is_utility(check)] or made or checks)):
        lacking = lacking or [NOTHING]
    if found["leak"]:
        status: Literal["leaks", "no-evidence", "incomplete"] = "leaks"
        count = len(found["leak"])
        gives = f"{audited[:1].upper()}{audited[1:]} gives away training data"
        summary = f"{gives}: {count} of {ran} findings {'is' if count == 1 else 'are'} a leak."
    elif lacking:
        status = "incomplete"
        what = "nothing could be" if lacking == [NOTHING] else f"{len(set(lacking))} of what was required could not be"
        reads = " except how well the model reads" if lacking == [NOTHING] and any(map(is_audited, made)) else ""
        summary = f"No leak was found, but {what} audited{reads}."
    else:
        status = "no-evidence"
        none = "The one finding is no leak" if ran == 1 else f"None of {ran} findings is a leak"
        summary = f"{none}. That is no proof that there is none."
    if found["unresolved"] and status == "no-evidence":
        summary += f" {len(found['unresolved'])} could not be resolved with these documents."
    if found["weak"]:
        summary += f" {len(found['weak'])} {'more ' if found['leak'] else ''}showed a weak sign."
    if left_out := sum(check.status != "ran" for check in checks):
        summary += f" {left_out} of {len(checks)} checks did not run; each row gives the reason."
    over = {"leak": found["leak"], "weak": found["leak"] + found["weak"], "never": []}[fail_on]
    results = [
        result
        for limit in policy.limits
        for result in (
            [hold_guarantee(limit, guarantee, contradicted=contradicted)]
            if limit.check == GUARANTEE
            else hold(limit, checks)
        )
    ]
    gate = Gate(
        fail_on=fail_on,
        over=over,
        lacking=list(dict.fromkeys(_unmet(policy.required, checks) if fail_on == "never" else lacking)),
        numbers=results,
    )
    gate = exempt(gate, checks, policy, datasets)
    if failed := sum(result.status in ("failed", "not audited") for result in gate.numbers):
        summary += f" {failed} of {len(gate.numbers)} gates by number {'is' if failed == 1 else 'are'} not passed."
    return Verdict(status=status, gate=gate, summary=summary)


def is_audited(check: Check) -> bool:
    """Whether a check ran and what it found is resolved."""
    return check.status == "ran" and (check.finding is None or check.finding.level != "unresolved")


def is_utility(check: Check) -> bool:
    """Whether a check says how well the model reads, by which no value and no membership comes out."""
    return check.review is not None and check.review.obtains == "utility"


def _unmet(required: Requirements, checks: Sequence[Check]) -> list[str]:
    """Names of which no check is audited."""
    audited = {check.id for check in checks if is_audited(check)}
    return [name for name, ids in required.items() if not ids & audited]


def exit_code(verdict: Verdict) -> int:
    """1 for a finding or a number over the gate; 3 where something required could not be audited; else 0."""
    gate = verdict.gate
    statuses = {result.status for result in gate.numbers}
    if gate.over or "failed" in statuses:
        return EXIT_FINDING
    return EXIT_NOT_AUDITED if gate.lacking or "not audited" in statuses else EXIT_OK

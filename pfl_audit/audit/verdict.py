"""From findings to one answer and one exit code, computed before anything is rendered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pfl_audit.audit.results import Check, Gate, Level, Verdict
from pfl_audit.errors import EXIT_FINDING, EXIT_NOT_AUDITED, EXIT_OK

ALPHA = 0.05
"""Chance of at least one false alarm over the whole audit, shared out among its checks (Bonferroni)."""

FailOn = Literal["leak", "weak", "never"]


def level_of(lower: float, adjusted_lower: float, chance: float, *, enough: bool) -> Level:
    """How bad a finding is.

    Args:
        lower: Lower end of the ordinary two-sided interval.
        adjusted_lower: One-sided lower bound at the check's share of ALPHA.
        chance: What the number would be without a leak.
        enough: Whether the data could have shown a leak at all.

    Returns:
        ``leak`` where even the adjusted bound is above chance, ``weak`` where only the ordinary
        interval is, else ``none``; ``unresolved`` where there is too little to tell.
    """
    if not enough or math.isnan(lower) or math.isnan(adjusted_lower):
        return "unresolved"
    if min(lower, adjusted_lower) > chance:
        return "leak"
    return "weak" if lower > chance else "none"


def decide(checks: Sequence[Check], fail_on: FailOn) -> Verdict:
    """The verdict over all checks; what did not run never counts as a pass."""
    found = {
        level: [check.id for check in checks if check.finding and check.finding.level == level]
        for level in ("leak", "weak", "none", "unresolved")
    }
    missing = [check.id for check in checks if check.status != "ran"] + found["unresolved"]
    over = {"leak": found["leak"], "weak": found["leak"] + found["weak"], "never": []}[fail_on]
    ran = sum(check.status == "ran" for check in checks)
    if found["leak"]:
        status: Literal["leaks", "no-evidence", "incomplete"] = "leaks"
        summary = f"The model gives away training data: {len(found['leak'])} of {ran} checks found a leak."
    elif missing or not ran:
        status = "incomplete"
        summary = f"No leak was found, but {len(missing)} of {len(checks)} checks could not be made or resolved."
    else:
        status = "no-evidence"
        made = "The one check found no leak" if ran == 1 else f"None of {ran} checks found a leak"
        summary = f"{made}. That is no proof that there is none."
    if found["weak"]:
        summary += f" {len(found['weak'])} more showed a weak sign."
    return Verdict(status=status, gate=Gate(fail_on=fail_on, over=over), summary=summary)


def exit_code(verdict: Verdict, checks: Sequence[Check]) -> int:
    """1 over the gate; 3 where a check did not run or nothing was resolved; else 0."""
    if verdict.gate.over:
        return EXIT_FINDING
    if not checks or any(check.status != "ran" for check in checks) or verdict.status == "incomplete":
        return EXIT_NOT_AUDITED
    return EXIT_OK

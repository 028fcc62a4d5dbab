"""Mark of a check: level of its finding, or why it has none."""

from __future__ import annotations

from pfl_audit.core.results import Check


def mark_of(check: Check) -> str:
    """Level of a check that ran, else its status; what ran without a finding is part of another, or unresolved."""
    if check.status != "ran":
        return check.status
    if check.finding is None:
        return "part" if check.part_of else "unresolved"
    return check.finding.level

"""An export: one line a finding, as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.core.exports import Export

if TYPE_CHECKING:
    from pfl_audit.core.results import Results


def to_lines(results: Results) -> str:
    """Id and level of every finding."""
    return "".join(f"{check.id}: {check.finding.level}\n" for check in results.checks if check.finding)


EXPORT = Export("lines", "Findings as lines.", to_lines)

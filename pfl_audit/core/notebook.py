"""The results of an audit as a notebook cell shows them: the verdict, and a line a finding."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from pfl_audit.core.numbers import chance, headline, interval, number
from pfl_audit.core.redaction import visible
from pfl_audit.core.schema import Check, Verdict

LEVELS: Final = {
    "leak": "Leak",
    "weak": "Weak sign",
    "none": "No evidence",
    "unresolved": "Unresolved",
    "skipped": "Not run",
    "failed": "Failed",
}
_STATUS: Final = {"leaks": "Leaks", "no-evidence": "No evidence of a leak", "incomplete": "Incomplete"}
_COLUMNS: Final = ("Finding", "Check", "Metric", "Number", "Interval", "Chance")
_LONGEST: Final = 300


def as_html(verdict: Verdict, checks: Sequence[Check]) -> str:
    """A small table as self-contained HTML; every text of the results is escaped.

    Checks that are part of another have no row of their own.
    """
    rows = "".join(_row(check) for check in checks if not check.part_of)
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    return (
        f"<div><strong>{_STATUS[verdict.status]}</strong>: {_text(verdict.summary)}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(check: Check) -> str:
    metric = headline(check)
    if check.status != "ran":
        cells = (LEVELS[check.status], check.title, check.reason or "", "", "", "")
    else:
        level = LEVELS[check.finding.level if check.finding else "unresolved"]
        numbers = (metric.name, number(metric), interval(metric), chance(metric)) if metric else ("", "", "", "")
        cells = (level, check.title, *numbers)
    return f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}</tr>"


def _text(text: str) -> str:
    return escape(visible(text, _LONGEST))

"""The verdict in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pfl_audit.audit.results import Check, Results

_MARKS = {
    "leak": "[bold red]LEAK[/]",
    "weak": "[yellow]weak sign[/]",
    "none": "[green]no evidence[/]",
    "unresolved": "[dim]unresolved[/]",
}
_HEADS = {
    "leaks": "[bold red]LEAKS[/]",
    "no-evidence": "[green]NO EVIDENCE OF A LEAK[/]",
    "incomplete": "[yellow]INCOMPLETE[/]",
}


def show_verdict(results: Results, folder: Path, reports: Sequence[Path]) -> None:
    """Print the verdict, a line a check, and where the report lies."""
    console = Console(highlight=False)
    console.print(f"\n{_HEADS[results.verdict.status]}  {escape(results.verdict.summary)}\n")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for check in results.checks:
        table.add_row(*_line(check))
    console.print(table)
    console.print()
    for path in [*reports, folder / "results.json"]:
        console.print(escape(str(path)), soft_wrap=True)


def _line(check: Check) -> tuple[str, str, str]:
    if check.status != "ran" or check.finding is None:
        return f"[dim]{check.status}[/]", escape(check.id), f"[dim]{escape(check.reason or '')}[/]"
    return _MARKS[check.finding.level], escape(check.id), escape(check.finding.text)

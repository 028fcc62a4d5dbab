"""The verdict in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pfl_audit.core.comparison import Comparison
from pfl_audit.core.gates import gate_lines
from pfl_audit.core.numbers import chance, headline, interval, number
from pfl_audit.core.published import beside, labels
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Check, Results

_MARKS = {
    "leak": "[bold red]LEAK[/]",
    "weak": "[yellow]weak sign[/]",
    "none": "[green]no evidence[/]",
    "unresolved": "[dim]unresolved[/]",
}
_COLOURS = {"leak": "[red]", "weak": "[yellow]", "none": "[green]", "unresolved": "[dim]"}
_WIDTH = 114
"""Columns that the table needs: below that a line that runs over is better than one that is cut."""
_HEADS = {
    "leaks": "[bold red]LEAKS[/]",
    "no-evidence": "[green]NO EVIDENCE OF A LEAK[/]",
    "incomplete": "[yellow]INCOMPLETE[/]",
}


def show_verdict(results: Results, folder: Path, reports: Sequence[Path]) -> None:
    """Print the verdict, a line a check, and where the report lies."""
    console = _console()
    console.print(f"\n{_HEADS[results.verdict.status]}  {_plain(results.verdict.summary)}\n")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column, width in (("finding", 11), ("check", 32), ("number", 36), ("interval", 18), ("chance", 12)):
        table.add_column(column, no_wrap=column != "number", max_width=width)
    for check in results.checks:
        if check.status == "ran" and not check.part_of:
            table.add_row(*_cells(check))
    if table.row_count:
        console.print(table)
        console.print()
    for line in labels(results):
        console.print(_plain(line), soft_wrap=True)
    if results.published:
        console.print(_beside_papers(results))
        console.print()
    for check in results.checks:
        if check.status != "ran":
            console.print(f"{check.status}: {_plain(check.id)}: {_plain(check.reason or '')}", soft_wrap=True)
        elif check.finding and check.finding.level == "unresolved":
            console.print(f"unresolved: {_plain(check.id)}: {_plain(check.finding.text)}", soft_wrap=True)
    if results.target.claim_review is not None:
        console.print(f"privacy guarantee: {_plain(_guarantee(results))}", soft_wrap=True)
    for line in gate_lines(results.verdict.gate):
        console.print(_plain(line), soft_wrap=True)
    for path in [*reports, folder / "results.json"]:
        console.print(_plain(str(path)), soft_wrap=True)


def _console() -> Console:
    console = Console(highlight=False, emoji=False)
    console.width = max(console.width, _WIDTH)
    return console


def _beside_papers(results: Results) -> Table:
    """Our numbers with those of papers; the last column says why there is none of ours."""
    heads = ("beside the paper", "number", "ours", "interval", "the paper's", "difference", "")
    table = Table(*heads, box=None, pad_edge=False, header_style="dim")
    for one in beside(results):
        ours = (number(one.metric), interval(one.metric)) if one.metric else ("–", "")
        said = (f"{one.number.table}: {one.number.row}", one.number.metric)
        table.add_row(*map(_plain, (*said, *ours, one.printed, one.apart, one.reason)))
    return table


def show_trainings(results: Results, files: Sequence[Path]) -> None:
    """Print numbers of trainings, except those of single validations; differences to papers; and the files."""
    console = _console()
    table = Table("training", "mode", "number", "value", box=None, pad_edge=False, header_style="dim")
    for check in results.checks:
        for metric in check.metrics:
            if not metric.slice or "criterion" in metric.slice:
                name = ", ".join((metric.name, *map(str, metric.slice.values())))
                table.add_row(*map(_plain, (check.id, check.title, name, number(metric))))
    console.print(table)
    if results.published:
        console.print(_beside_papers(results))
    for path in files:
        console.print(_plain(str(path)), soft_wrap=True)


def show_comparison(comparison: Comparison, pages: Sequence[Path]) -> None:
    """Print audits side by side, and where the page lies."""
    console = _console()
    titles = [_plain(column.title) for column in comparison.columns]
    table = Table("", *titles, box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("chance", style="dim")
    table.add_row("verdict", *(_HEADS[column.status] for column in comparison.columns), "")
    table.add_row("privacy guarantee", *(_plain(column.guarantee) for column in comparison.columns), "")
    for row in (*comparison.utility, *comparison.checks):
        cells = []
        for cell in row.cells:
            text = f"{cell.number} {cell.interval}".strip()
            cells.append(f"{_COLOURS[cell.level]}{_plain(text)}[/]" if cell.level else _plain(text))
        table.add_row(_plain(row.title), *cells, _plain(row.chance))
    console.print()
    console.print(table)
    console.print("[red]leak[/]  [yellow]weak sign[/]  [green]no evidence[/]  [dim]unresolved[/]\n")
    for note in comparison.notes:
        console.print(f"[yellow]{_plain(note)}[/]")
    for page in pages:
        console.print(escape(str(page)), soft_wrap=True)


def _plain(text: str) -> str:
    """Text of results that may come from elsewhere: nothing in it is obeyed, by rich or by the terminal."""
    return escape(visible(text, 1000))


def _guarantee(results: Results) -> str:
    """The stated privacy guarantee and its effective epsilon."""
    review = results.target.claim_review
    if review is None or review.claim is None:
        return review.text if review else ""
    stated = f"epsilon {review.claim.epsilon:.4g} at delta {review.claim.delta:g} for a {review.claim.unit}"
    return f"{stated}: {review.text}"


def _cells(check: Check) -> tuple[str, ...]:
    mark = _MARKS[check.finding.level] if check.finding else ""
    found = headline(check)
    if found is None:
        return mark, _plain(check.id), "", "", ""
    return mark, _plain(check.id), f"{number(found)} {_plain(found.name)}", interval(found), chance(found)

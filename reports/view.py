"""Results arranged for reading: worst first, numbers in grids, what is missing in a list of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pfl_audit.reports import words
from pfl_audit.reports.claim import ClaimView, view_claim

from pfl_audit.audit.numbers import headline
from pfl_audit.audit.results import Check, Metric, Results

_ORDER = ("leak", "weak", "unresolved", "failed", "none", "skipped")


@dataclass(frozen=True)
class Grid:
    """Metrics of one model: a row a metric, a column a slice."""

    model: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Metric | None, ...]], ...]


@dataclass(frozen=True)
class Card:
    """One check as it is shown."""

    check: Check
    mark: str
    grids: tuple[Grid, ...]
    headline: Metric | None


@dataclass(frozen=True)
class View:
    """The whole report."""

    cards: tuple[Card, ...]
    missing: tuple[Card, ...]
    membership: tuple[Check, ...]
    claim: ClaimView | None


def arrange(results: Results) -> View:
    """Sort checks worst first and put their metrics into grids."""
    cards = [
        Card(check, mark(check), grids(check.metrics), headline(check))
        for check in sorted(results.checks, key=lambda check: _ORDER.index(mark(check)))
    ]
    return View(
        cards=tuple(card for card in cards if card.check.status == "ran"),
        missing=tuple(card for card in cards if card.check.status != "ran" or card.mark == "unresolved"),
        membership=tuple(check for check in results.checks if check.family == "membership" and check.status == "ran"),
        claim=view_claim(results),
    )


def mark(check: Check) -> str:
    """Level of a check that ran, else its status."""
    return check.finding.level if check.status == "ran" and check.finding else check.status


def grids(metrics: Sequence[Metric]) -> tuple[Grid, ...]:
    """One grid a model, columns in the order in which their slices come."""
    found = []
    for model in dict.fromkeys(str(metric.slice.get("model", "")) for metric in metrics):
        mine = [metric for metric in metrics if str(metric.slice.get("model", "")) == model]
        keyed = {(metric.name, words.slice_name(_rest(metric))): metric for metric in mine}
        columns = tuple(dict.fromkeys(words.slice_name(_rest(metric)) for metric in mine))
        names = dict.fromkeys(metric.name for metric in mine)
        rows = tuple((name, tuple(keyed.get((name, column)) for column in columns)) for name in names)
        found.append(Grid(model, columns, rows))
    return tuple(found)


def _rest(metric: Metric) -> dict[str, str | int | float]:
    return {name: value for name, value in metric.slice.items() if name != "model"}

"""Results arranged for a report: worst findings first, metrics in grids, checks that did not run in a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pfl_audit.core.numbers import headline
from pfl_audit.core.results import Check, Metric, Results
from pfl_audit.reports import words
from pfl_audit.reports.guarantee import GuaranteeView, view_guarantee

_MOSTLY_EMPTY = 20
"""Cells for one number, from which on a grid would be mostly empty: then every number has a row of its own."""
_ORDER = ("leak", "weak", "unresolved", "failed", "none", "part", "skipped")


@dataclass(frozen=True)
class Grid:
    """Metrics of one model: a row a metric, a column a slice."""

    model: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Metric | None, ...]], ...]


@dataclass(frozen=True)
class Card:
    """One check as it is shown.

    Attributes:
        mark: Level of its finding, or its status.
        broad: Whether its pictures take the whole width, as those of filled forms do.
    """

    check: Check
    mark: str
    grids: tuple[Grid, ...]
    headline: Metric | None
    broad: bool


@dataclass(frozen=True)
class View:
    """The whole report.

    Attributes:
        cards: Checks that ran, worst first.
        missing: Checks that did not run or are unresolved.
        membership: Membership attacks, in the order of the results.
        guarantee: Privacy guarantee of the model under audit, or None.
        problems: Records of all data sets that could not be used.
    """

    cards: tuple[Card, ...]
    missing: tuple[Card, ...]
    membership: tuple[Check, ...]
    guarantee: GuaranteeView | None
    problems: tuple[str, ...]


def arrange(results: Results) -> View:
    """Sort checks worst first and put their metrics into grids."""
    subjects = [data.subject for data in results.datasets]
    only = subjects[0] if len(subjects) == 1 else None
    cards = [
        Card(check, mark(check), grids(check.metrics), headline(check), (check.subject or only) == "gradients")
        for check in sorted(results.checks, key=lambda check: _ORDER.index(mark(check)))
    ]
    return View(
        cards=tuple(card for card in cards if card.check.status == "ran"),
        missing=tuple(card for card in cards if card.check.status != "ran" or card.mark == "unresolved"),
        membership=tuple(
            check
            for check in results.checks
            if check.part_of and check.family == "membership" and check.status == "ran"
        ),
        guarantee=view_guarantee(results),
        problems=tuple(problem for data in results.datasets for problem in data.problems),
    )


def mark(check: Check) -> str:
    """Level of a check that ran, else its status; what ran without a finding is part of another, or unresolved."""
    if check.status != "ran":
        return check.status
    if check.finding is None:
        return "part" if check.part_of else "unresolved"
    return check.finding.level


def grids(metrics: Sequence[Metric]) -> tuple[Grid, ...]:
    """One grid a model, columns in the order in which their slices come."""
    models: dict[str, dict[tuple[str, str], Metric]] = {}
    for metric in metrics:
        key = metric.name, words.slice_name({name: value for name, value in metric.slice.items() if name != "model"})
        models.setdefault(str(metric.slice.get("model", "")), {})[key] = metric
    return tuple(_grid(model, keyed) for model, keyed in models.items())


def _grid(model: str, keyed: Mapping[tuple[str, str], Metric]) -> Grid:
    names, columns = (tuple(dict.fromkeys(key[place] for key in keyed)) for place in (0, 1))
    if len(names) * len(columns) > _MOSTLY_EMPTY * len(keyed):
        rows = tuple((" · ".join(filter(None, key)), (metric,)) for key, metric in keyed.items())
        return Grid(model, ("",), rows)
    return Grid(model, columns, tuple((name, tuple(keyed.get((name, one)) for one in columns)) for name in names))

"""Results arranged for a report: page one, one section a question, and an annex with every number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pfl_audit.core.numbers import headline
from pfl_audit.core.published import Beside, beside
from pfl_audit.core.results import Check, Curve, Evidence, Metric, Results, Table
from pfl_audit.core.schema import Band, Size, total_of
from pfl_audit.reports import words
from pfl_audit.reports.captions import in_words, what_to_see
from pfl_audit.reports.charts import Chart, chart_of
from pfl_audit.reports.guarantee import GuaranteeView, view_guarantee
from pfl_audit.reports.marks import mark_of
from pfl_audit.reports.page_one import LetteredFinding, PageOne, page_one

Item = TypeVar("Item", Curve, Evidence, Table)
_MOSTLY_EMPTY = 20
"""Cells for one number, from which on a grid would be mostly empty: then every number has a row of its own."""
_CHARTS: Final = 24
"""Charts in a section, of the worst findings; the others are in the annex."""
_DRAWN: Final = 400
"""Charts in the annex; the curves of what is left are in results.json."""
_LEVELS: Final = ("leak", "weak", "unresolved")
_SHOWN: Final = 2
"""Pictures of evidence in a section; the others are in the annex."""


@dataclass(frozen=True)
class Grid:
    """Metrics of one model: a row a metric, a column a slice."""

    model: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Metric | None, ...]], ...]


@dataclass(frozen=True)
class Figure:
    """A chart with what to see in it, and its numbers in words."""

    chart: Chart
    see: str
    words: str


@dataclass(frozen=True)
class Section:
    """Everything that answers one question.

    Attributes:
        anchor: Id of the section.
        deciding: Findings over many attacks, whose table is among ``tables``.
        figures: Charts.
        evidence: Documents that show the findings.
        tables: Tables of attacks; none where ``rows`` are the table.
        rows: Findings with the number that each rests on.
    """

    question: str
    anchor: str
    deciding: tuple[LetteredFinding, ...]
    figures: tuple[Figure, ...]
    evidence: tuple[Evidence, ...]
    tables: tuple[Table, ...]
    rows: tuple[tuple[LetteredFinding, Metric | None], ...]


@dataclass(frozen=True)
class Card:
    """A check in the annex, without what the sections show.

    Attributes:
        undrawn: Number of its figures that the page has no room for.
    """

    check: Check
    mark: str
    anchor: str
    grids: tuple[Grid, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    evidence: tuple[Evidence, ...]
    undrawn: int = 0


@dataclass(frozen=True)
class View:
    """The whole report.

    Attributes:
        guarantee: Privacy guarantee of the model under audit, or None.
        beside: Numbers of papers, with ours.
        problems: Records of all data sets that could not be used, the first of each.
        unusable: Number of all of them by reason, the most frequent first.
    """

    page: PageOne
    sections: tuple[Section, ...]
    cards: tuple[Card, ...]
    guarantee: GuaranteeView | None
    beside: tuple[Beside, ...]
    problems: tuple[str, ...]
    unusable: Mapping[str, Size]

    @property
    def left_out(self) -> Size:
        """Number of records that could not be used; results of earlier versions have no more than their list."""
        total = total_of(self.unusable.values())
        return max(total, len(self.problems)) if isinstance(total, int) else total


def arrange(results: Results) -> View:
    """Group checks by the question that they help to answer."""
    page = page_one(results)
    lettered = {one.check.id: one for one in page.findings}
    questions: dict[str, list[Check]] = {}
    places = {one.check.id: place for place, one in enumerate(page.findings)}
    wholes = {check.id: check for check in results.checks}
    # Findings in the order of page one; what is part of another comes where that one does.
    for check in sorted(results.checks, key=lambda check: places.get(check.part_of or check.id, len(places))):
        if check.status == "ran":
            questions.setdefault(_question(check, wholes.get(check.part_of or check.id, check)), []).append(check)
    sections = tuple(
        _section(place, question, checks, lettered)
        for place, (question, checks) in enumerate(questions.items(), start=1)
    )
    shown = _shown(sections)
    ran = [check for check in results.checks if check.status == "ran"]
    drawn = _drawn(ran, shown)
    return View(
        page=page,
        sections=sections,
        cards=tuple(_card(place, check, shown, drawn) for place, check in enumerate(ran, start=1)),
        guarantee=view_guarantee(results),
        beside=beside(results),
        problems=tuple(problem for data in results.datasets for problem in data.problems),
        unusable=_summed([data.unusable for data in results.datasets]),
    )


def _summed(counts: Sequence[Mapping[str, Size]]) -> dict[str, Size]:
    """Counts of all data sets, the largest first."""
    reasons = {reason for each in counts for reason in each}
    total = {reason: total_of(each[reason] for each in counts if reason in each) for reason in sorted(reasons)}
    return dict(sorted(total.items(), key=lambda item: -(item[1].high if isinstance(item[1], Band) else item[1])))


def _question(check: Check, whole: Check) -> str:
    review = whole.review or check.review
    return review.question if review else f"What do the checks of “{check.family}” show?"


def _section(place: int, question: str, checks: Sequence[Check], lettered: Mapping[str, LetteredFinding]) -> Section:
    mine = [lettered[check.id] for check in checks if check.id in lettered]
    wholes = {check.part_of for check in checks}
    figures: list[Curve] = []
    tables: list[Table] = []
    for one in mine:
        figures += one.check.curves[:1]
        if one.check.id in wholes:  # it decides on many attacks, and brings their table
            tables += one.check.tables[:2]
            figures += _strongest(one.check, checks)
    return Section(
        question=question,
        anchor=f"q{place}",
        deciding=tuple(one for one in mine if one.check.id in wholes and one.check.tables),
        figures=tuple(map(_figure, figures[:_CHARTS])),
        evidence=tuple(item for one in mine for item in one.check.evidence[:1])[:_SHOWN],
        tables=tuple(tables),
        rows=tuple((one, headline(one.check)) for one in mine if one.check.id not in wholes or not one.check.tables),
    )


def _strongest(whole: Check, checks: Sequence[Check]) -> list[Curve]:
    """The line of the attack that a finding over many rests on, such as its accuracy over s."""
    named = whole.finding.slice.get("attack") if whole.finding else None
    chosen = [check for check in checks if check.part_of == whole.id and check.title == named]
    return [curve for check in chosen for curve in check.curves if curve.kind == "line"][:1]


def _figure(curve: Curve) -> Figure:
    return Figure(chart_of(curve), what_to_see(curve), in_words(curve))


def _shown(sections: Sequence[Section]) -> frozenset[int]:
    """What the sections show, by identity."""
    items = [item for section in sections for item in (*section.tables, *section.evidence)]
    curves = [figure.chart.curve for section in sections for figure in section.figures]
    return frozenset(map(id, (*items, *curves)))


def _rest(items: Sequence[Item], shown: frozenset[int]) -> tuple[Item, ...]:
    return tuple(item for item in items if id(item) not in shown)


def _drawn(ran: Sequence[Check], shown: frozenset[int]) -> frozenset[int]:
    """Curves that the annex draws, by identity: those of the worst checks first."""
    worst = sorted(ran, key=lambda check: _LEVELS.index(mark) if (mark := mark_of(check)) in _LEVELS else len(_LEVELS))
    rest = [id(curve) for check in worst for curve in _rest(check.curves, shown)]
    return frozenset(rest[:_DRAWN])


def _card(place: int, check: Check, shown: frozenset[int], drawn: frozenset[int]) -> Card:
    curves = _rest(check.curves, shown)
    figures = tuple(_figure(curve) for curve in curves if id(curve) in drawn)
    return Card(
        check=check,
        mark=mark_of(check),
        anchor=f"a{place}",
        grids=grids(check.metrics),
        figures=figures,
        undrawn=len(curves) - len(figures),
        tables=_rest(check.tables, shown),
        evidence=_rest(check.evidence, shown),
    )


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

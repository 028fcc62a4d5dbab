"""Several audits side by side: the same checks on different models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pfl_audit.core.change import Change, Direction, change_of
from pfl_audit.core.coarse_text import CoarseText
from pfl_audit.core.disclosure_control import SMALLEST
from pfl_audit.core.keyed import exact_of, has_digests
from pfl_audit.core.numbers import chance, headline, interval, number
from pfl_audit.core.resamples import Resamples, read_resamples
from pfl_audit.core.results import Data, Level, Metric, Results
from pfl_audit.errors import UsageError

Settings = Mapping[tuple[str, str], object]
"""Id of a check and name of a setting to its value."""
_FACTS: Final = frozenset(
    {"alpha", "precision", "target task", "target family", "decided at s", "features", "features without values",
     "questions", "secrets"}
)  # fmt: skip
"""What settings of a check say of the model, the data and the other findings."""
_DIRECTIONS: Final[tuple[Direction, ...]] = ("worse", "better", "unclear")
_CHANGES: Final = (
    "Changes are against the first audit. Those marked as paired are resampled over the same providers in both audits "
    "(same documents, same seed, resamples kept in the private folders). The others are unpaired: their intervals take "
    "the audits as independent, and tend to be too wide."
)


@dataclass(frozen=True)
class Cell:
    """Number of one audit on a row.

    Attributes:
        number: Formatted value, or a dash.
        interval: Formatted interval in brackets, or nothing.
        note: What the number is, or why there is none.
        level: Level of the finding, where the row is a check.
    """

    number: str
    interval: str = ""
    note: str = ""
    level: Level | None = None


@dataclass(frozen=True)
class Row:
    """A row of a comparison: one check or metric of all audits.

    Attributes:
        changes: Change of each audit against the first, which has None; empty where nothing is compared.
    """

    title: str
    cells: tuple[Cell, ...]
    chance: str = ""
    changes: tuple[Change | None, ...] = ()

    @property
    def direction(self) -> Direction:
        """What is said of the whole row: worse where any audit got worse."""
        found = {change.direction for change in self.changes if change}
        return "worse" if "worse" in found else "better" if "better" in found else "unclear"


@dataclass(frozen=True)
class Column:
    """One audit; ``demonstration`` says that its model comes with pfl-audit."""

    title: str
    folder: Path
    status: str
    guarantee: str
    demonstration: bool = False


@dataclass(frozen=True)
class Comparison:
    """Audits side by side: first how useful the models are, then what they give away.

    Attributes:
        columns: One an audit.
        datasets: Data sets of all audits.
        utility: Metrics of the models' utility.
        checks: Findings; what got worse comes first, then what got better.
        notes: What must be known before the numbers are compared.
    """

    columns: tuple[Column, ...]
    datasets: tuple[Data, ...]
    utility: tuple[Row, ...]
    checks: tuple[Row, ...]
    notes: tuple[str, ...]


def compare(runs: Sequence[tuple[Results, Path]]) -> Comparison:
    """Put audits side by side.

    Args:
        runs: Results and the folder of each.

    Raises:
        UsageError: There are fewer than two.
    """
    if len(runs) < 2:
        raise UsageError("a comparison needs two audits or more", "Give the folders of finished audits")
    results = [found for found, _ in runs]
    exact = [exact_of(found, folder) for found, folder in runs]
    ids = dict.fromkeys(check.id for found in results for check in found.checks if not check.part_of)
    notes = []
    digests = [{data.subject: data.sha256 for data in found.datasets} for found in exact]
    shared = set.intersection(*map(set, digests))
    if not all(map(has_digests, exact)):
        notes.append(
            "An audit is masked and without its private folder: cannot tell whether it is the same corpus, and so "
            "changes are not compared."
        )
    elif not shared or any(len({one[subject] for one in digests}) > 1 for subject in shared):
        notes.append("The audits asked about different documents: their numbers cannot be held against each other.")
    comparable = not notes
    if comparable:
        notes.append(_CHANGES)
    drawn = [read_resamples(found, folder) for found, folder in runs]
    rows = [_row(results, exact, name, drawn if comparable else None) for name in ids]
    alike = len({found.title for found in results}) < len(results)
    return Comparison(
        columns=tuple(
            Column(
                folder.name if alike and folder.name else found.title,
                folder,
                found.verdict.status,
                _guarantee(found),
                found.target.demonstration,
            )
            for found, folder in runs
        ),
        datasets=tuple(data for found in results for data in found.datasets),
        utility=_utility(results),
        checks=tuple(sorted(rows, key=_order)),
        notes=tuple(notes),
    )


def _guarantee(results: Results) -> str:
    review = results.target.claim_review
    if review is None:
        return "none"
    if review.claim is None:
        return review.text
    claim = f"epsilon {review.claim.epsilon:.3g} at delta {review.claim.delta:g} for a {review.claim.unit}"
    return claim if review.worth == "holds" else f"{claim}: {review.text}"


def _utility(results: Sequence[Results]) -> tuple[Row, ...]:
    found = [
        {metric.name: metric for check in run.checks for metric in check.metrics if metric.role == "utility"}
        for run in results
    ]
    names = dict.fromkeys(name for metrics in found for name in metrics)
    return tuple(Row(f"{name} on new pages", tuple(_cell(metrics.get(name)) for metrics in found)) for name in names)


def _order(row: Row) -> tuple[int, float, float]:
    """Within a direction the largest change of level, then of the number in half-widths of its interval."""
    place = _DIRECTIONS.index(row.direction)
    changes = [change for change in row.changes if change and row.direction != "unclear"]
    steps = max((abs(one.steps) for one in changes), default=0)
    size = max((abs(one.size) for one in changes), default=0.0)
    return place, -steps, -size


def _row(results: Sequence[Results], exact: Sequence[Results], name: str, drawn: Sequence[Resamples] | None) -> Row:
    """A row of findings, with changes unless ``drawn`` is None; these are decided on the exact results."""
    checks = [next((check for check in run.checks if check.id == name), None) for run in results]
    title = next(check.title for check in checks if check)
    cells, guesses = [], []
    for check in checks:
        if check is None or check.status != "ran" or check.finding is None:
            cells.append(Cell("–", note=(check.reason or check.status) if check else "not asked for"))
            continue
        metric = headline(check)
        guesses += [chance(metric)] if metric and chance(metric) else []
        cell = _cell(metric)
        cells.append(Cell(cell.number, cell.interval, cell.note, check.finding.level))
    changes: tuple[Change | None, ...] = ()
    if drawn is not None:
        pairs = [
            (drawn[0], own) if _same_draws(results[0], run) else None for run, own in zip(results, drawn, strict=True)
        ]
        own = [next((check for check in run.checks if check.id == name), None) for run in exact]
        found = (change_of(own[0], *one) for one in zip(own[1:], pairs[1:], strict=True))
        if any(run.provenance.smallest_group is not None for run in results):
            found = (_coarse(change) for change in found)
        asked = [_settings_of(run, name) for run in results]
        changes = (None, *(_by_settings(change, asked[0], own) for change, own in zip(found, asked[1:], strict=True)))
    return Row(title, tuple(cells), ", ".join(dict.fromkeys(guesses)), changes)


def _by_settings(change: Change | None, before: Settings, after: Settings) -> Change | None:
    """A change; where the attacks ran with different settings, none that is said of the models."""
    apart = dict.fromkeys(key for key in before if key in after and before[key] != after[key])
    if change is None or not apart:
        return change
    names = ", ".join(dict.fromkeys(name for _, name in apart))
    note = f"the attack ran with other settings ({names}), so the change may be theirs"
    return replace(change, direction="unclear", note="; ".join(filter(None, (change.note, note))))


def _coarse(change: Change | None) -> Change | None:
    """A change as a masked report prints it."""
    if change is None or not change.interval:
        return change
    number, _, interval = CoarseText(SMALLEST)(f"{change.number} {change.interval}").partition(" [")
    return replace(change, number=number, interval=f"[{interval}")


def _settings_of(results: Results, name: str) -> Settings:
    """Settings of a check and of its parts, by check and name, without what they say of the model and the data."""
    checks = [check for check in results.checks if name in (check.id, check.part_of) and check.status == "ran"]
    return {(check.id, key): value for check in checks for key, value in check.settings.items() if key not in _FACTS}


def _same_draws(one: Results, other: Results) -> bool:
    """Whether two audits of the same documents draw the same resamples."""
    return (one.provenance.seed, one.provenance.version) == (other.provenance.seed, other.provenance.version)


def _cell(metric: Metric | None) -> Cell:
    return Cell("–") if metric is None else Cell(number(metric), interval(metric), metric.name)

"""Statistical disclosure control: from exact results those that a masked report shares.

A number of a report is a query on companies. One is published where at least ``smallest`` units of privacy are behind
it, and behind every integer combination of it with other published numbers of its kind (set differencing; Hundepool et
al., Statistical Disclosure Control, 2012, section 4.4). What is published is rounded to the half-width of its interval,
and counts are bands, because another report about almost the same companies can always be subtracted. Levels, gates and
exit codes are decided before, on exact numbers.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from itertools import combinations
from typing import Final

import numpy as np
from pydantic import BaseModel, Field

from pfl_audit.core.coarse_text import PSEUDONYM, WIDTH, band, coarse_number, coarse_text, ladder
from pfl_audit.core.fields import Cell
from pfl_audit.core.keyed import keyed
from pfl_audit.core.results import Check, Curve, Data, Finding, Metric, Results, Table
from pfl_audit.core.schema import LimitResult

SMALLEST: Final = 5
"""Fewest units behind a published number, where the user sets no other (--smallest-group)."""
Items = frozenset[tuple[str, str]]
"""Digests of what a number is about, each with that of its unit."""
_ATOMS: Final = 3
"""Most atoms of few units that are looked at together."""
_GRID: Final = 0.1
"""Step of the points of a curve."""
_CONSTANT: Final = frozenset({"guesses", "rank", "guess", "epoch", "Training pages", "before", "tuned"})
"""Columns whose numbers are settings, or belong to one value of a list."""
_COUNTED: Final = frozenset({"questions", "secrets", "pages"})
"""Settings of a check that count what was audited."""
_APART: Final = "not published: it, or its difference to another number, is about fewer than {0} {1}"
_MOVED: Final = "not published: fewer than {0} {1} came or left since a report of this store, and may have moved it"


class Total(BaseModel):
    """A published number of a model: which it is, what it can be combined with, and the set that it is about."""

    place: tuple[str, ...]
    family: tuple[str, ...]
    model: str
    about: str
    metric: Metric


class Totals(BaseModel):
    """Published numbers of all reports of a store."""

    sets: dict[str, Items] = Field(default_factory=dict)
    numbers: list[Total] = Field(default_factory=list)


def share(results: Results, smallest: int, key: bytes, before: Totals) -> tuple[Results, Totals]:
    """The results that a masked report shares.

    Args:
        results: Exact ones; numbers know what they are about (``Metric.items``).
        smallest: Fewest units behind a published number.
        key: Key of the run, for digests.
        before: What reports of the same store have published.

    Returns:
        The results, and what the store keeps of them.
    """
    kept = _Kept(smallest, before, results.target.sha256)
    chosen = {data.subject for data in results.datasets if data.chosen}
    checks = [
        check if check.subject in chosen or _is_planted(check) else _shared(check, smallest, kept)
        for check in results.checks
    ]
    found = {_place(check.id, metric.name, metric.slice): metric for check in checks for metric in check.metrics}
    gate = results.verdict.gate
    numbers = [_limit(one, found.get(_place(one.check, one.metric, one.slice)), smallest) for one in gate.numbers]
    review = results.target.claim_review
    if review is not None:
        review = review.model_copy(update={"text": coarse_text(review.text, smallest)})
    shared = results.model_copy(
        update={
            "checks": checks,
            "datasets": [_data(data, smallest, key) for data in results.datasets],
            "verdict": results.verdict.model_copy(update={"gate": gate.model_copy(update={"numbers": numbers})}),
            "target": results.target.model_copy(update={"claim_review": review}),
            "provenance": results.provenance.model_copy(update={"smallest_group": smallest}),
        }
    )
    return shared, kept.totals()


def concerns_few(sets: Iterable[Items], smallest: int) -> bool:
    """True if an integer combination of totals over sets is about fewer than ``smallest`` units.

    Items that lie in the same sets are one atom: a total is a sum over atoms. Totals say something of some atoms alone
    exactly where the rank of the matrix of atoms and sets falls without the rows of these atoms.
    """
    rows = list(dict.fromkeys(sets))
    units: dict[tuple[bool, ...], set[str]] = defaultdict(set)
    for item in frozenset[tuple[str, str]]().union(*rows):
        units[tuple(item in one for one in rows)].add(item[1])
    atoms = list(units)
    matrix = np.array(atoms, dtype=np.float64).reshape(len(atoms), len(rows))
    small = [place for place, atom in enumerate(atoms) if len(units[atom]) < smallest]
    whole = np.linalg.matrix_rank(matrix) if atoms else 0
    return any(
        len(set().union(*(units[atoms[place]] for place in some))) < smallest
        and np.linalg.matrix_rank(np.delete(matrix, some, axis=0)) < whole
        for size in range(1, 1 + min(_ATOMS, len(small)))
        for some in combinations(small, size)
    )


class _Kept:
    """Numbers that this report and earlier ones of the store have published."""

    def __init__(self, smallest: int, before: Totals, model: str) -> None:
        self._smallest, self._model = smallest, model
        self._numbers = {(one.place, one.model): one for one in before.numbers}
        # Of this model where it has one, else the newest.
        self._last = {one.place: one for one in sorted(before.numbers, key=lambda one: one.model == model)}
        self._sets = dict(before.sets)
        self._own: dict[object, set[Items]] = defaultdict(set)
        self._earlier: dict[object, set[Items]] = defaultdict(set)
        for one in before.numbers:
            self._earlier[one.family].add(before.sets[one.about])

    def publish(self, check: str, metric: Metric) -> Metric:
        """A number rounded, as it was published before, or without a value."""
        known = frozenset((_digest(item), _digest(unit)) for item, unit in metric.items)
        units = len({unit for _, unit in known}) if known else metric.n
        if isinstance(units, int) and units < self._smallest:
            return _without(metric, _APART, self._smallest)
        coarse = _coarse(metric, self._smallest, units if isinstance(units, int) else None)
        if not known:
            return coarse
        place = _place(check, metric.name, metric.slice)
        family = check, metric.name, str(metric.slice.get("model"))
        if concerns_few({*self._own[family], known}, self._smallest):
            return _without(metric, _APART, self._smallest)
        self._own[family].add(known)
        earlier = self._earlier[family]
        if known not in earlier and concerns_few({*earlier, known}, self._smallest):
            last = self._last.get(place)
            if last is None or last.metric.value is None or metric.value is None:
                return _without(metric, _MOVED, self._smallest)
            away, step = abs(metric.value - last.metric.value), last.metric.step or 0.0
            if away <= step:
                return last.metric
            if away <= step + 2 * len(known ^ self._sets[last.about]) / len(known):  # they may have moved it so far
                return _without(metric, _MOVED, self._smallest)
        about = _digest("".join(sorted(item for item, _ in known)))
        self._sets[about] = known
        self._numbers.pop((place, self._model), None)  # the newest comes last
        self._numbers[place, self._model] = Total(
            place=place, family=family, model=self._model, about=about, metric=coarse
        )
        return coarse

    def totals(self) -> Totals:
        """All that was published, without sets that no number is about any more."""
        numbers = list(self._numbers.values())
        return Totals(sets={one.about: self._sets[one.about] for one in numbers}, numbers=numbers)


def _shared(check: Check, smallest: int, kept: _Kept) -> Check:
    """A check of companies; where slices exclude each other, those like the finding's are published."""
    wanted = check.finding.slice if check.finding else {}

    def unlike(metric: Metric) -> int:
        return sum(metric.slice.get(name) != value for name, value in wanted.items())

    found = {id(one): kept.publish(check.id, one) for one in sorted(check.metrics, key=unlike)}
    metrics = [found[id(one)] for one in check.metrics]
    metrics = [
        one.model_copy(update={"note": coarse_text(one.note, smallest) if one.note else None}) for one in metrics
    ]
    full = isinstance(most := check.settings.get("shown_pages"), int) and len(check.evidence) >= most
    return check.model_copy(
        update={
            "metrics": metrics,
            "tables": [_table(table, smallest) for table in check.tables],
            "curves": [_curve(curve) for curve in check.curves if curve.kind != "scatter"],
            "evidence": check.evidence if full or len(check.evidence) >= smallest else [],
            "finding": _finding(check.finding, metrics, smallest) if check.finding else None,
            "reason": coarse_text(check.reason, smallest) if check.reason else None,
            "settings": {
                name: str(band(value, smallest)) if name in _COUNTED and isinstance(value, int) else value
                for name, value in check.settings.items()
            },
        }
    )


def _is_planted(check: Check) -> bool:
    """True if all numbers are about canaries that the trainer planted."""
    return bool(check.metrics) and all(metric.unit == "guesses" for metric in check.metrics)


def _without(metric: Metric, why: str, smallest: int) -> Metric:
    unit = metric.unit if metric.unit not in ("pages", "questions") else "units of privacy"
    empty = dict.fromkeys(("value", "ci", "level", "method", "n", "std", "seeds"))
    return metric.model_copy(update={**empty, "note": why.format(smallest, unit)})


def _coarse(metric: Metric, smallest: int, units: int | None) -> Metric:
    """A number rounded to the half-width of its interval; no unit alone moves a rate by more than half a step."""
    value, chance = metric.value, metric.chance
    update: dict[str, object] = {"n": None if not isinstance(metric.n, int) else band(metric.n, smallest)}
    update["chance"] = None if chance is None else round(chance, 2)
    update["std"] = None if metric.std is None else ladder(metric.std)
    if value is not None:
        width = WIDTH * (metric.ci[1] - metric.ci[0]) / 2 if metric.ci else 0.0
        rate = 2 / units if units and metric.format in ("percent", "points", "decimal") else 0.0
        least = float(smallest) if metric.format == "integer" else rate
        step = ladder(max(width, least) or abs(value) or 1.0)
        shown, ends, bound = coarse_number(value, metric.ci, step, share=metric.format == "percent")
        if metric.format == "integer" and shown == 0:
            shown, bound = step, "at most"
        update |= {"value": shown, "step": step, "bound": bound, "ci": ends}
    return metric.model_copy(update=update)


def _finding(finding: Finding, metrics: Collection[Metric], smallest: int) -> Finding:
    head = next((one for one in metrics if (one.name, one.slice) == (finding.metric, finding.slice)), None)
    hidden = head is not None and head.value is None
    limits = {float(one.name.split()[2]) / 100 for one in metrics if re.match(r"TPR at \d", one.name)}
    limits |= {0.01, 0.03, 0.1} if finding.slice.get("attack") else set()
    texts = {
        name: coarse_text(getattr(finding, name), smallest) for name in ("text", "plain") if getattr(finding, name)
    }
    success, alarms = (None if hidden else rate for rate in (finding.success, finding.false_alarms))
    rates = {  # ends of tenths, so that no limit of a likelihood is crossed
        "success": None if success is None else math.floor(success / _GRID + 1e-9) / 10,
        "false_alarms": alarms if alarms is None or alarms in limits else max(1, math.ceil(alarms / _GRID - 1e-9)) / 10,
    }
    smallest_effect = None if finding.smallest_effect is None else float(f"{finding.smallest_effect:.1g}")
    return finding.model_copy(update={**texts, **rates, "smallest_effect": smallest_effect})


def _limit(result: LimitResult, metric: Metric | None, smallest: int) -> LimitResult:
    """Result of a gate by number, whose compared number is that of the shared metric."""
    reason = coarse_text(result.reason, smallest) if result.reason else None
    if metric is None or result.compared is None:
        return result.model_copy(update={"reason": reason})
    ends = metric.ci if result.end != "estimate" else None
    compared = metric.value if ends is None else ends[1 if result.end == "upper" else 0]
    return result.model_copy(update={"compared": compared, "reason": reason})


def _table(table: Table, smallest: int) -> Table:
    """A list of units cut to the lower end of a band; of another table, counts as bands and shares in tenths."""
    note = coarse_text(table.note, smallest) if table.note else None
    if any(isinstance(cell, str) and PSEUDONYM.match(cell) for row in table.rows for cell in row[:2]):
        size = band(len(table.rows), smallest)
        cut = f"The first {size.low} of {size}." if size.low else f"There are {size}, which are not listed."
        return table.model_copy(update={"rows": table.rows[: size.low], "note": " ".join(filter(None, (cut, note)))})

    def coarse(column: str, cell: Cell) -> Cell:
        if column in _CONSTANT or cell is None:
            return cell
        if isinstance(cell, str):
            return coarse_text(cell, smallest)
        return str(band(cell, smallest)) if isinstance(cell, int) else _tenth(cell)

    rows = [[coarse(column, cell) for column, cell in zip(table.columns, row, strict=False)] for row in table.rows]
    return table.model_copy(update={"rows": rows, "note": note})


def _curve(curve: Curve) -> Curve:
    """A figure whose points lie on a grid; an exact corner says of how many units a share is one."""
    series = []
    for one in curve.series:
        round_x = curve.kind in ("roc", "step")
        names = ("x", "y", "low", "high")
        columns = {name: getattr(one, name) for name in names if getattr(one, name) is not None}
        rounded = {name: [*map(_tenth, parts)] if name != "x" or round_x else parts for name, parts in columns.items()}
        points = list({point[0]: point for point in zip(*rounded.values(), strict=True)}.values())
        series.append(one.model_copy(update={name: [point[at] for point in points] for at, name in enumerate(rounded)}))
    return curve.model_copy(update={"series": series})


def _data(data: Data, smallest: int, key: bytes) -> Data:
    """Facts of the documents with a keyed digest; counts are bands where they are of companies' pages."""
    digest = {"sha256": keyed(key, data.sha256)}
    if data.chosen:
        return data.model_copy(update=digest)
    names = ("providers", "members", "non_members", "documents", "queries")
    counts = {name: _or_none(getattr(data, name), smallest) for name in names}
    counted = {
        name: {what: _or_none(count, smallest) for what, count in getattr(data, name).items()}
        for name in ("parts", "unusable")
    }
    facts = {name: coarse_text(cell, smallest) if isinstance(cell, str) else cell for name, cell in data.facts.items()}
    size = band(len(data.problems), smallest)
    return data.model_copy(
        update={**digest, **counts, **counted, "facts": facts, "problems": data.problems[: size.low]}
    )


def _tenth(value: float) -> float:
    return round(round(value / _GRID) * _GRID, 1)


def _or_none(count: object, smallest: int) -> object:
    """A band; nothing stays nothing."""
    return band(count, smallest) if isinstance(count, int) and count else count


def _place(check: str, metric: str | None, about: Mapping[str, object]) -> tuple[str, ...]:
    return check, metric or "", *sorted(f"{name}: {value}" for name, value in about.items())


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]

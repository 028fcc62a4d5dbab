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
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import combinations
from typing import Final

import numpy as np
from numpy.linalg import norm
from pydantic import BaseModel, Field
from scipy.linalg import null_space, orth

from pfl_audit.core.coarse_text import (
    PSEUDONYM,
    RATES,
    WIDTH,
    CoarseText,
    band,
    coarse_number,
    ladder,
    to_step,
)
from pfl_audit.core.fields import Cell
from pfl_audit.core.keyed import keyed
from pfl_audit.core.numbers import in_format
from pfl_audit.core.results import Check, Curve, Data, Finding, Metric, Results, Table
from pfl_audit.core.schema import LimitResult

SMALLEST: Final = 5
"""Fewest units behind a published number, where the user sets no other (--smallest-group)."""
Items = frozenset[tuple[str, str]]
"""Digests of what a number is about, each with that of its unit."""
_GRID: Final = 0.1
"""Step of the points of a curve."""
_CONSTANT: Final = frozenset({"guesses", "rank", "guess", "epoch", "Training pages", "before", "tuned"})
"""Columns whose numbers are settings, or belong to one value of a list."""
_ALARMS: Final = (0.01, 0.03, 0.1)
"""Rates of false alarms that an attack sets, and no company moves."""
_HALF: Final = 0.5
_ZERO: Final = 1e-6
_TRIED: Final = 2_000
"""Most combinations of totals that are tried, in about a tenth of a second; a number of more is not published."""
_PARTS: Final = re.compile(r",? (?:non-)?members\b| gap\b")
"""Words that are the difference in the names of three numbers of which any two give the third."""
_COUNTED: Final = frozenset({"questions", "secrets", "pages"})
"""Settings of a check that count what was audited."""
_LIMIT: Final = re.compile(r"(?<=[<>=])\s*[-+.\de]+(?!\s*=)")
"""Number of a gate as the user wrote it."""
_APART: Final = "not published: it, or its difference to another number, is about fewer than {0} {1}"
_MOVED: Final = "not published: fewer than {0} {1} came or left since a report of this store, and may have moved it"


class Total(BaseModel):
    """A published number: check, name and slice, the model that it is about, and the set."""

    place: tuple[str, ...]
    model: str
    about: str
    metric: Metric


class Totals(BaseModel):
    """Published numbers of all reports of a store."""

    sets: dict[str, Items] = Field(default_factory=dict)
    numbers: list[Total] = Field(default_factory=list)

    def joined(self, later: Totals) -> Totals:
        """These and later ones; the newest comes last."""
        numbers: dict[object, Total] = {}
        for one in (*self.numbers, *later.numbers):
            numbers.pop(key := (one.place, one.model, one.about), None)
            numbers[key] = one
        return Totals(sets=self.sets | later.sets, numbers=list(numbers.values()))


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
    own = [check for check in results.checks if check.subject not in chosen and not _is_planted(check)]
    pairs = {check.id: kept.publish_all(check) for check in own}
    checks = []
    for check in results.checks:
        attack = check.finding.slice.get("attack") if check.finding else None
        # Sentences repeat numbers of the check, and of the attack that its finding rests on.
        parts = [one for one in own if one is check or (one.part_of == check.id and one.title == attack)]
        text = CoarseText(smallest, [pair for one in parts for pair in pairs[one.id]], check.finding)
        checks.append(_shared(check, pairs[check.id], text, smallest) if check.id in pairs else check)
    found = {_place(name, one.name, one.slice): metric for name, some in pairs.items() for one, metric in some}
    gate, claim = results.verdict.gate, results.target.training_claim
    numbers = [_limit(one, found.get(_place(one.check, one.metric, one.slice)), smallest) for one in gate.numbers]
    shared = results.model_copy(
        update={
            "checks": checks,
            "datasets": [_data(data, smallest, key) for data in results.datasets],
            "verdict": results.verdict.model_copy(update={"gate": gate.model_copy(update={"numbers": numbers})}),
            "target": results.target.model_copy(update={"training_claim": _counted(claim, smallest)}),
            "provenance": results.provenance.model_copy(update={"smallest_group": smallest}),
        }
    )
    return shared, kept.totals()


def concerns_few(sets: Sequence[Items], smallest: int) -> bool:
    """True if an integer combination of totals, among them the last, is about fewer than ``smallest`` units.

    Items that lie in the same sets are one atom: a total is a sum over atoms. Combinations that are about atoms of few
    units alone are a space of vectors over these atoms. Each of its vectors is about all atoms of an elementary one,
    which is 0 at as many independent atoms as it can be. Where these are too many to be tried, the answer is True.
    """
    if sets[-1] in sets[:-1]:
        return False
    atoms: dict[tuple[bool, ...], set[str]] = defaultdict(set)
    for item in frozenset[tuple[str, str]]().union(*sets):
        atoms[tuple(item in one for one in sets)].add(item[1])
    units, matrix = list(atoms.values()), np.array(list(atoms), dtype=np.float64)
    few = np.array([[len(some) < smallest] for some in units])
    others = matrix * (np.arange(len(sets)) < len(sets) - 1)
    # Rounded, because what is 0 but for the rest of a product would count.
    both = ((part * few @ null_space(part * ~few)).round(9) for part in (matrix, others))
    space, known = (orth(part).round(9) for part in both)
    rank = space.shape[1]
    if not rank or math.comb(int(few.sum()), rank - 1) > _TRIED:
        return rank > 0
    for zeros in combinations(np.flatnonzero(few), rank - 1):
        weights = null_space(space * np.isin(np.arange(len(space)), zeros)[:, None])
        vector = space @ weights[:, 0]
        about = set().union(*(units[at] for at in np.flatnonzero(abs(vector) > _ZERO)))
        if weights.shape[1] == 1 and len(about) < smallest and norm(vector - known @ (known.T @ vector)) > _ZERO:
            return True
    return False


class _Kept:
    """Numbers that this report and earlier ones of the store have published."""

    def __init__(self, smallest: int, before: Totals, model: str) -> None:
        self._smallest, self._model = smallest, model
        self._before, self._new = before, Totals()
        # Of this model where it has one, else the newest.
        self._last = {one.place: one for one in sorted(before.numbers, key=lambda one: one.model == model)}
        self._own: dict[object, dict[Items, None]] = defaultdict(dict)
        self._earlier: dict[object, dict[Items, None]] = defaultdict(dict)
        for one in before.numbers:
            self._earlier[_family(one.place, one.metric)][before.sets.get(one.about, frozenset())] = None

    def publish_all(self, check: Check) -> list[tuple[Metric, Metric]]:
        """Numbers of a check, exact and published; of those that exclude each other, the one like the finding's is."""
        wanted = check.finding.slice.items() if check.finding else ()
        order = sorted(check.metrics, key=lambda one: sum(one.slice.get(name) != value for name, value in wanted))
        found = {id(one): self._publish(check.id, one) for one in order}
        return [(one, found[id(one)]) for one in check.metrics]

    def totals(self) -> Totals:
        """All that was published."""
        return self._before.joined(self._new)

    def _publish(self, check: str, metric: Metric) -> Metric:
        """A number rounded, as it was published before, or without a value."""
        known = frozenset((_digest(item), _digest(unit)) for item, unit in metric.items)
        units = len({unit for _, unit in known}) if known else metric.n
        coarse = _coarse(metric, self._smallest, units if isinstance(units, int) else None)
        place = _place(check, metric.name, metric.slice)
        family = _family(place, metric)
        if metric.value is None:
            return coarse
        if isinstance(units, int) and units < self._smallest:
            return _without(metric, _APART, self._smallest)
        if not known:
            return coarse
        if concerns_few([*self._own[family], known], self._smallest):
            return _without(metric, _APART, self._smallest)
        self._own[family][known] = None
        if concerns_few([*self._earlier[family], known], self._smallest):
            last = self._last.get(place)
            if last is None:
                return _without(metric, _MOVED, self._smallest)
            away, step = abs(metric.value - (last.metric.value or 0.0)), last.metric.step or 0.0
            if away <= step:
                return last.metric.model_copy(update={"note": metric.note})
            moved = known ^ self._before.sets.get(last.about, frozenset())
            if away <= step + 2 * len(moved) / len(known):  # they may have moved it so far
                return _without(metric, _MOVED, self._smallest)
        about = _digest("".join(sorted(item for item, _ in known)))
        self._new.sets[about] = known
        self._new.numbers.append(Total(place=place, model=self._model, about=about, metric=coarse))
        return coarse


def _shared(check: Check, pairs: Iterable[tuple[Metric, Metric]], text: CoarseText, smallest: int) -> Check:
    """A check of companies with its published numbers."""
    full = isinstance(most := check.settings.get("shown_pages"), int) and len(check.evidence) >= most
    return check.model_copy(
        update={
            "metrics": [one.model_copy(update={"note": text(one.note) if one.note else None}) for _, one in pairs],
            "tables": [_table(table, text, smallest) for table in check.tables],
            "curves": [_curve(curve) for curve in check.curves if curve.kind != "scatter"],
            "evidence": check.evidence if full or len(check.evidence) >= smallest else [],
            "finding": _finding(check.finding, text) if check.finding else None,
            "reason": text(check.reason) if check.reason else None,
            "settings": {
                name: str(_banded(value, smallest)) if name in _COUNTED else value
                for name, value in check.settings.items()
            },
        }
    )


def _is_planted(check: Check) -> bool:
    """True if all numbers are about canaries that the trainer planted."""
    return bool(check.metrics) and all(metric.unit == "guesses" for metric in check.metrics)


def _without(metric: Metric, why: str, smallest: int) -> Metric:
    unit = metric.unit if metric.unit not in ("pages", "questions") else "units of privacy"
    empty = dict.fromkeys(("value", "ci", "level", "method", "n", "chance", "std", "seeds"))
    return metric.model_copy(update={**empty, "note": why.format(smallest, unit)})


def _coarse(metric: Metric, smallest: int, units: int | None) -> Metric:
    """A number rounded to the half-width of its interval; no unit alone moves a rate by more than half a step."""
    value, chance = metric.value, metric.chance
    update: dict[str, object] = {"n": _banded(metric.n, smallest), "chance": None}
    update["std"] = None if metric.std is None else ladder(metric.std)
    if value is not None:
        width = WIDTH * (metric.ci[1] - metric.ci[0]) / 2 if metric.ci else 0.0
        rate = 2 / units if units and metric.format in RATES else 0.0
        least = float(smallest) if metric.format == "integer" else rate
        step = ladder(max(width, least) or abs(value) or 1.0)
        shown, ends, bound = coarse_number(value, metric.ci, step, share=metric.format == "percent")
        if metric.format == "integer" and (value < smallest or shown == 0):
            shown, bound = step, "at most"
        update |= {"value": shown, "step": step, "bound": bound, "ci": ends}
        if chance is not None:
            origin = chance if chance in _ALARMS else _HALF if metric.format in RATES and chance else 0.0
            update["chance"] = to_step(chance - origin, step) + origin
    return metric.model_copy(update=update)


def _finding(finding: Finding, text: CoarseText) -> Finding:
    texts = {name: text(said) for name in ("text", "plain") if (said := getattr(finding, name))}
    success, alarms = (None if text.hidden else rate for rate in (finding.success, finding.false_alarms))
    if success is not None:  # ends of tenths, so that no limit of a likelihood is crossed
        success = to_step(success, _GRID, math.floor)
    if alarms is not None and alarms not in _ALARMS:
        alarms = max(_GRID, to_step(alarms, _GRID, math.ceil))
    smallest_effect = None if finding.smallest_effect is None else float(f"{finding.smallest_effect:.1g}")
    rates = {"success": success, "false_alarms": alarms, "smallest_effect": smallest_effect}
    return finding.model_copy(update={**texts, **rates})


def _limit(result: LimitResult, metric: Metric | None, smallest: int) -> LimitResult:
    """Result of a gate by number: the number is the shared one, and the limit is rounded like it.

    Exact limits beside exact results would be a search for the exact number.
    """
    reason = CoarseText(smallest)(result.reason) if result.reason else None
    if metric is None or result.compared is None:
        return result.model_copy(update={"reason": reason})
    ends = metric.ci if result.end != "estimate" else None
    step = metric.step or ladder(abs(result.limit)) or 1.0
    limit = to_step(result.limit, step)
    said = f" about {in_format(limit, result.format, bare=True, step=step)}"
    return result.model_copy(
        update={
            "gate": _LIMIT.sub(said, result.gate),
            "limit": limit,
            "compared": metric.value if ends is None else ends[1 if result.end == "upper" else 0],
            "reason": reason,
        }
    )


def _counted(record: dict[str, object] | None, smallest: int) -> dict[str, object] | None:
    """A training record whose counts of data are bands."""
    if record is None or not isinstance(data := record.get("data"), dict):
        return record
    return record | {"data": {name: str(band(int(count), smallest)) for name, count in data.items()}}


def _table(table: Table, text: CoarseText, smallest: int) -> Table:
    """A list of units cut to the lower end of a band; of another table, counts as bands and shares to a step."""
    note = text(table.note) if table.note else None
    if not table.rows or any(isinstance(cell, str) and PSEUDONYM.match(cell) for row in table.rows for cell in row[:2]):
        size = band(len(table.rows), smallest)
        if not size.low:  # nothing about those that are in it, so that none looks like a few
            return table.model_copy(update={"rows": [], "note": f"There are {size}, which are not listed."})
        note = " ".join(filter(None, (f"The first {size.low} of {size}.", note)))
        return table.model_copy(update={"rows": table.rows[: size.low], "note": note})

    def coarse(column: str, cell: Cell) -> Cell:
        if column in _CONSTANT or cell is None:
            return cell
        if isinstance(cell, str):
            return text(f"p {cell}").removeprefix("p ") if column == "p" else text(cell)
        return str(band(cell, smallest)) if isinstance(cell, int) else text.share(cell)

    rows = [[coarse(column, cell) for column, cell in zip(table.columns, row, strict=False)] for row in table.rows]
    return table.model_copy(update={"rows": rows, "note": note})


def _curve(curve: Curve) -> Curve:
    """A figure whose points lie on a grid; an exact corner says of how many units a share is one."""
    series = []
    for one in curve.series:
        round_x = curve.kind in ("roc", "step")
        names = ("x", "y", "low", "high")
        columns = {name: getattr(one, name) for name in names if getattr(one, name) is not None}
        rounded = {
            name: [to_step(part, _GRID) for part in parts] if name != "x" or round_x else parts
            for name, parts in columns.items()
        }
        points = list({point[0]: point for point in zip(*rounded.values(), strict=True)}.values())
        series.append(one.model_copy(update={name: [point[at] for point in points] for at, name in enumerate(rounded)}))
    return curve.model_copy(update={"series": series})


def _data(data: Data, smallest: int, key: bytes) -> Data:
    """Facts of the documents with a keyed digest; counts are bands where they are of companies' pages."""
    digest = {"sha256": keyed(key, data.sha256)}
    if data.chosen:
        return data.model_copy(update=digest)
    names = ("documents", "queries", *(("providers", "members", "non_members") if data.providers else ()))
    counts = {name: _banded(getattr(data, name), smallest) for name in names}
    counted = {
        name: {what: _banded(count, smallest) for what, count in getattr(data, name).items()}
        for name in ("parts", "unusable")
    }
    text = CoarseText(smallest)
    facts = {name: text(cell) if isinstance(cell, str) else cell for name, cell in data.facts.items()}
    size = band(len(data.problems), smallest)
    return data.model_copy(
        update={**digest, **counts, **counted, "facts": facts, "problems": data.problems[: size.low]}
    )


def _banded(count: object, smallest: int) -> object:
    return band(count, smallest) if isinstance(count, int) else count


def _place(check: str, metric: str | None, about: Mapping[str, object]) -> tuple[str, ...]:
    return check, metric or "", *sorted(f"{name}: {value}" for name, value in about.items())


def _family(place: tuple[str, ...], metric: Metric) -> tuple[str, ...]:
    """Key of the numbers that can be combined: one quantity of one check and model."""
    return place[0], _PARTS.sub("", metric.name), str(metric.slice.get("model"))


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]

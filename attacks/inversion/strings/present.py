"""Metrics, table and finding of strings by field."""

from __future__ import annotations

from collections.abc import Sequence

from pfl_audit.attacks.inversion.bound import NoiseBound
from pfl_audit.attacks.inversion.controls import FILLINGS, STRINGS, pooled
from pfl_audit.attacks.inversion.decision import Decision, decide
from pfl_audit.attacks.inversion.present_decision import against, closed_finding, recalled
from pfl_audit.attacks.inversion.strings.audit import FieldStrings
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.context import AuditContext
from pfl_audit.core.fields import Cell
from pfl_audit.core.results import Check, Table

_COLUMNS = ["document", "field", "written there", "read", "is", "excess", "with another letter", "random"]
_NOTE = (
    "Excess: how far the worst patch lies outside the span over what errors explain, about 1 for one of the page; of "
    "the string, of the nearest that differs in a letter, and of the nearest of 200 random ones. Candidates do not "
    "count."
)


def strings_check(
    spec: CheckSpec, context: AuditContext, read: Sequence[FieldStrings], bounds: Sequence[NoiseBound | None]
) -> Check:
    """The check of strings by field."""
    quiet = [one.quiet for one in read]
    decision = decide([one.counts for one in read], context.budget, quiet)
    right, wanted, named = (sum(getattr(one, name) for one in read) for name in ("right", "wanted", "named"))
    candidates = sum(len(one.readings) for one in read) - named
    text = (
        f"Of {wanted} private fields, the whole strings of {right} were read, and {named - right} false ones beside "
        f"them (a reading is no proof); {candidates} are candidates, which do not count. {_beside(decision)} Of noise "
        f"of the update's size, {int(pooled(quiet)[STRINGS][0, 0])} are read."
    )
    return spec.ran(
        metrics=[*against(decision, quiet, unit="fields"), *recalled(STRINGS, right, wanted, named, "fields")],
        tables=[Table(title="Strings by field", columns=_COLUMNS, rows=_rows(context, read), note=_NOTE)],
        finding=closed_finding(decision, text, "private fields", [one.limits for one in read], bounds=bounds),
    )


def _beside(found: Decision | None) -> str:
    if found is None:
        return "There is no private field that could be counted."
    return (
        f"Against {FILLINGS} other fillings of the same forms {100 * found.chance:.1f} % would have been right on "
        f"average, {100 * found.most:.1f} % at most (p {found.p:.3f})."
    )


def _rows(context: AuditContext, read: Sequence[FieldStrings]) -> list[list[Cell]]:
    """One row a string; one a field of which none was read."""
    hide = context.redactor
    rows: list[list[Cell]] = []
    for one in read:
        for reading in one.readings:
            there = [page[field] for field in reading.fields for page in one.written if field in page]
            found = reading.nearness
            rows.append(
                [one.name, " or ".join(reading.fields), "; ".join(map(hide.value, there)), hide.value(reading.text),
                 "read" if reading.named else "candidate",
                 *(round(value, 2) for value in (found.own, found.other, found.random))]
            )  # fmt: skip
        got = {field for reading in one.readings for field in reading.fields}
        for field in dict.fromkeys(field for page in one.written for field in page if field not in got):
            there = [page[field] for page in one.written if field in page]
            rows.append([one.name, field, "; ".join(map(hide.value, there)), None, None, None, None, None])
    return rows

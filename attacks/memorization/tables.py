"""Tables of the memorization test: which companies, which pages were left out, what is left on the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pfl_audit.core.fields import Cell
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Table
from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Query
from pfl_audit.documents.scrubbing.residual import ResidualKind
from pfl_audit.documents.units import PROVIDER, Unit
from pfl_audit.metrics.answers import accuracy, anls
from pfl_audit.models.protocol import Response

COLUMNS = ("question", "page", "unit", "member", "key", "words", "acc", "anls", "conf", "loss")
BESIDE = ("acc", "anls", "loss", "exposure")
"""Columns that a control has too, as ``acc_control`` and so on."""


def answers_table(
    queries: Sequence[Query], members: Mapping[str, bool], responses: Mapping[str, Response]
) -> pd.DataFrame:
    """Scores of every question that was answered.

    Args:
        queries: Questions about pages.
        members: Unit of privacy to whether it was trained on; questions about others are left out.
        responses: Query id to response. A loss that is missing or not finite becomes NaN: the page then counts for
            the answers and not for the losses. An empty answer has ACC 0 and ANLS 0.

    Returns:
        COLUMNS; ``member`` bool, ``words`` (of the page) int, scores float with NaN where there is nothing.
    """
    rows = [
        (
            query.id,
            query.document.id,
            query.document.unit,
            members[query.document.unit],
            query.key,
            len(query.document.words),
            accuracy(response.answer, query.answers),
            anls(response.answer, query.answers),
            _number(response.confidence),
            _number(response.loss),
        )
        for query in queries
        if (response := responses.get(query.id)) is not None and query.document.unit in members
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def pages_table(
    queries: Sequence[Query],
    members: Mapping[str, bool],
    responses: Mapping[str, Response],
    clues: Mapping[str, int],
    exposures: Mapping[str, float],
) -> pd.DataFrame:
    """Scores of every page that could be asked about: one row a page.

    Args:
        queries: About scrubbed pages.
        members: As in ``answers_table``.
        responses: Likewise.
        clues: Query id to the number of residual clues.
        exposures: Query id to exposure in bits, where it was measured.

    Returns:
        Table from ``answers_table`` with ``clues`` (int) and ``exposure`` (float, NaN where there is none).
    """
    table = answers_table(queries, members, responses)
    return table.assign(
        clues=[clues.get(name, 0) for name in table["question"]],
        exposure=[exposures.get(name, np.nan) for name in table["question"]],
    )


def beside(pages: pd.DataFrame, control: pd.DataFrame | None) -> pd.DataFrame:
    """The table with the control's columns beside it, NaN where the control said nothing.

    Returns:
        The columns of ``pages``, those of BESIDE with the suffix ``_control``, and ``ratio``: the mean log-likelihood
        of a token of the true value minus that under the control, in nats.
    """
    found = pages.copy()
    other = control.set_index("page") if control is not None else None
    for name in BESIDE:
        found[f"{name}_control"] = np.nan if other is None else found["page"].map(other[name])
    found["ratio"] = found["loss_control"] - found["loss"]
    return found


def _number(value: float | None) -> float:
    return float(value) if value is not None and np.isfinite(value) else float("nan")


_LISTED = 1000


def giveaway_table(units: pd.DataFrame, redactor: Redactor, unit: Unit = PROVIDER) -> Table:
    """Units whose every page gives the value away."""
    found = sorted(
        (not row["member"], redactor.name(row["unit"], unit.name), int(row["pages"]))
        for row in units.to_dict("records")
    )
    rows: list[list[Cell]] = [
        [name, "non-member" if other else "member", redactor.count(pages)] for other, name, pages in found
    ]
    return Table(
        title=f"{unit.many.capitalize()} whose every page gives the value away (two pages or more)",
        columns=[unit.name.capitalize(), "Class", "Pages"],
        rows=rows[:_LISTED],
        note=_cut(len(rows)),
    )


def skipped_table(problems: Sequence[Problem], redactor: Redactor) -> Table:
    """Pages that could not be tested, with the reason."""
    reasons = Counter(problem.reason for problem in problems)
    found = sorted((redactor.page(problem.record), problem.reason) for problem in problems)
    rows: list[list[Cell]] = [[*row] for row in found[:_LISTED]]
    counts = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common())
    return Table(title="Pages that could not be tested", columns=["Page", "Reason"], rows=rows, note=counts or "none")


def clue_table(
    queries: Sequence[Query], clues: Mapping[str, Sequence[ResidualKind]], redactor: Redactor, *, ocr: bool
) -> Table:
    """What a second look still found on the scrubbed pages."""
    kinds = Counter(kind for found in clues.values() for kind in set(found))
    rows: list[list[Cell]] = [
        [page, ", ".join(left)]
        for page, left in sorted(
            (redactor.page(query.document.id), sorted(set(clues[query.id]))) for query in queries if clues[query.id]
        )
    ]
    counts = ", ".join(f"{kind} on {count}" for kind, count in kinds.most_common()) or "none"
    looked = "words and pictures" if ocr else "words (--ocr looks at the pictures too)"
    note = (
        f"Looked at {looked}; {len(rows)} of {len(clues)} pages still hold a clue ({counts}); the metrics give the gap "
        "on the others apart"
    )
    return Table(
        title="Residual clues found by a second look", columns=["Page", "Clues"], rows=rows[:_LISTED], note=note
    )


def _cut(rows: int) -> str | None:
    return f"the first {_LISTED} of {rows}" if rows > _LISTED else None

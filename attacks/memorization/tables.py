"""Tables of the memorization test: which companies, which pages were left out, what is left on the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from pfl_audit.core.fields import Cell
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Table
from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Query
from pfl_audit.documents.scrubbing.residual import ResidualKind

_LISTED = 1000


def giveaway_table(providers: pd.DataFrame, redactor: Redactor) -> Table:
    """Providers whose every page gives the value away."""
    found = sorted(
        (not row["member"], redactor.name(row["provider"]), int(row["pages"])) for row in providers.to_dict("records")
    )
    rows: list[list[Cell]] = [
        [name, "non-member" if other else "member", redactor.count(pages)] for other, name, pages in found
    ]
    return Table(
        title="Providers whose every page gives the value away (two pages or more)",
        columns=["Provider", "Class", "Pages"],
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

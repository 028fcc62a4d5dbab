"""All metrics as CSV, one row a number, for spreadsheets and statistics packages."""

from __future__ import annotations

import csv
import io
from typing import Final

from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Results
from pfl_audit.reports.metric_rows import MetricRow, metric_rows

_HEAD: Final = (
    "check", "attack", "metric", "slice", "value", "low", "high", "level", "step", "bound", "chance", "n", "unit",
    "format", "std", "seeds", "as published", "paper", "table", "row", "published value", "published spread", "note",
)  # fmt: skip
_FORMULA: Final = "=+-@|%\uff1d\uff0b\uff0d\uff20"
"""Beginnings that a spreadsheet may take for a formula, in narrow and wide letters."""


def to_csv(results: Results) -> str:
    """Every metric with its interval, chance and what a paper prints.

    Values are as in results.json: 0.56 for 56 %. What the paper prints is as it prints it.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEAD)
    for row in metric_rows(results):
        writer.writerow([csv_text(cell) if isinstance(cell, str) else cell for cell in _cells(row)])
    return out.getvalue()


def csv_text(text: str) -> str:
    """A text that a spreadsheet shows and does not compute."""
    line = visible(text, 2_000)
    return f"'{line}" if line.lstrip().startswith(tuple(_FORMULA)) else line


def _cells(row: MetricRow) -> tuple[object, ...]:
    one, number = row.metric, row.published
    ends = one.ci or (None, None)
    paper = (number.paper, number.table, number.row, number.value, number.spread) if number else (None,) * 5
    return (
        row.check.id, row.check.title, one.name, row.slice, one.value, *ends, one.level, one.step, one.bound,
        one.chance, one.n, one.unit, one.format, one.std, one.seeds, row.check.as_published or "", *paper,
        one.note or "",
    )  # fmt: skip

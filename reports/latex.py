"""All metrics as LaTeX, one table a check, for papers; it needs no package."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from pfl_audit.core.numbers import chance, interval, number
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Results
from pfl_audit.reports.metric_rows import MetricRow, metric_rows

_HEAD: Final = ("Metric", "Ours", "Interval", "Chance", "Published")
_SPECIAL: Final = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''{}", "[": "{[}", "]": "{]}", "*": "{*}", "`": r"{\char96}",
    "–": "--", "±": r"\ensuremath{\pm}", "ε": r"\ensuremath{\varepsilon}", "Δ": r"\ensuremath{\Delta}",
    "≥": r"\ensuremath{\geq}", "≤": r"\ensuremath{\leq}",
}  # fmt: skip
"""Letters that TeX obeys, and those of our own texts that it does not know; brackets and the star, because they may
follow the end of a row."""


def to_latex(results: Results) -> str:
    """Every metric with its interval, chance and what a paper prints; nothing in a text of the results is obeyed."""
    lines = ["% Written by pfl-audit. Use: \\input{FILE}"]
    for _, group in groupby(metric_rows(results), key=lambda row: row.check.id):
        lines += _table(list(group))
    return "\n".join([*lines, ""])


def tex(text: str) -> str:
    """A text that LaTeX prints as it is."""
    return "".join(_SPECIAL.get(letter, letter) for letter in visible(text, 500))


def _table(rows: Sequence[MetricRow]) -> list[str]:
    check = rows[0].check
    caption = f"{check.title} ({check.id})" + (f"; {check.as_published}" if check.as_published else "")
    lines = [
        r"\begin{table}", r"\centering", rf"\caption{{{tex(caption)}}}", r"\begin{tabular}{lrrrr}", r"\hline",
        f"{' & '.join(_HEAD)} \\\\", r"\hline",
    ]  # fmt: skip
    lines += [f"{' & '.join(map(tex, _cells(row)))} \\\\" for row in rows]
    return [*lines, r"\hline", r"\end{tabular}", r"\end{table}"]


def _cells(row: MetricRow) -> tuple[str, ...]:
    name = ", ".join(filter(None, (row.metric.name, row.slice)))
    return name, number(row.metric), interval(row.metric), chance(row.metric), _published(row)


def _published(row: MetricRow) -> str:
    if row.published is None:
        return ""
    spread = "" if row.published.spread is None else f" ± {row.published.spread:g}"
    return f"{row.published.value:g}{spread} ({row.published.paper}, {row.published.table})"

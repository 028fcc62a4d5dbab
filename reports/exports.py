"""Exports of this repository; what makes their text is imported when a file is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.core.exports import Export

if TYPE_CHECKING:
    from pfl_audit.core.results import Results


def _sarif(results: Results) -> str:
    from pfl_audit.reports.sarif import to_sarif

    return to_sarif(results)


def _junit(results: Results) -> str:
    from pfl_audit.reports.junit import to_junit

    return to_junit(results)


def _summary(results: Results) -> str:
    from pfl_audit.reports.markdown import to_summary

    return to_summary(results)


def _model_card(results: Results) -> str:
    from pfl_audit.reports.markdown import to_model_card

    return to_model_card(results)


def _csv(results: Results) -> str:
    from pfl_audit.reports.csv_table import to_csv

    return to_csv(results)


def _latex(results: Results) -> str:
    from pfl_audit.reports.latex import to_latex

    return to_latex(results)


SARIF = Export("sarif", "Findings as SARIF 2.1.0, for code scanning.", _sarif)
JUNIT = Export("junit", "Checks and gates as JUnit XML, for CI.", _junit)
SUMMARY = Export("summary", "Verdict, gates and findings as Markdown, for a job summary.", _summary)
MODEL_CARD = Export("model-card", "Privacy section of a model card in Markdown, with model-index.", _model_card)
CSV = Export("csv", "All numbers as CSV, with intervals, chance and what papers print.", _csv)
LATEX = Export("latex", "The same as LaTeX tables.", _latex)

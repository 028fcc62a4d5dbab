"""Markdown for a job summary and for a model card."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from pfl_audit.core.gates import slug
from pfl_audit.core.numbers import chance, headline, in_format, interval, number
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Check, Results
from pfl_audit.core.schema import Gate, LimitResult

_HEADS = {"leaks": "Leaks", "no-evidence": "No evidence of a leak", "incomplete": "Incomplete"}
_LEVELS = {"leak": "leak", "weak": "weak sign", "none": "no evidence", "unresolved": "unresolved"}
_SPECIAL = re.compile(r"(^[-+>=]|[\\`*_\[\]()#|~])")
_LONGEST = 600
_EVIDENCE = (
    "This is evidence about the attacks that were run on the named model with the named documents. It is no "
    "determination of anonymity or of compliance."
)


def to_summary(results: Results) -> str:
    """The verdict, the gates, the findings, and what did not run, on one screen."""
    lines = [f"## Privacy audit: {_HEADS[results.verdict.status]}", "", md(results.verdict.summary), ""]
    lines += [*_gate_lines(results.verdict.gate), *_findings(results), *_not_run(results)]
    return "\n".join([*lines, f"<sub>{md(_EVIDENCE)}</sub>", ""])


def to_model_card(results: Results) -> str:
    """Metadata in the form of `model-index`, and the section "Privacy" of a model card."""
    lines = ["---", *_model_index(results), "---", "", "# Privacy", "", md(results.verdict.summary), ""]
    asked = "; ".join(
        f"{data.queries:,} questions or fields about {data.documents:,} documents of {data.members:,} members and "
        f"{data.non_members:,} non-members ({data.unit})"
        for data in results.datasets
    )
    packages = f"pfl-audit {results.provenance.version}, {results.provenance.started}, seed {results.provenance.seed}"
    lines += [f"Audited with {md(packages)}: {md(asked)}. Model: SHA-256 {md(results.target.sha256)}.", ""]
    lines += _findings(results)
    review = results.target.claim_review
    if review is not None and review.claim is not None:
        stated = f"epsilon {review.claim.epsilon:.4g} at delta {review.claim.delta:g} for a {review.claim.unit}"
        effective = "unknown" if review.epsilon is None else f"{review.epsilon:.4g}"
        lines += ["## Guarantee", "", f"Stated: {md(stated)}. Effective epsilon: {effective}. {md(review.text)}", ""]
    return "\n".join([*lines, *_gate_lines(results.verdict.gate), *_not_run(results), md(_EVIDENCE), ""])


def md(text: str) -> str:
    """Text of results as Markdown shows it: no markup, HTML or link in it is obeyed."""
    plain = visible(text, _LONGEST).replace("&", "&amp;").replace("<", "&lt;")
    linked = {"://": ":&#8203;//", "www.": "www&#46;", "@": "&#64;"}
    plain = _SPECIAL.sub(r"\\\1", plain)
    for found, shown in linked.items():
        plain = plain.replace(found, shown)
    return plain


def _findings(results: Results) -> list[str]:
    rows = [
        (_LEVELS[check.finding.level], check.title, *_cells(check))
        for check in results.checks
        if check.status == "ran" and check.finding
    ]
    head = ("finding", "check", "number", "interval", "chance")
    return ["### Findings", "", *_table(head, rows), ""] if rows else []


def _cells(check: Check) -> tuple[str, str, str]:
    found = headline(check)
    return (f"{number(found)} {found.name}", interval(found), chance(found)) if found else ("", "", "")


def _gate_lines(gate: Gate) -> list[str]:
    lines: list[str] = []
    if gate.lacking:
        lines += [f"Required, and not audited: {', '.join(map(md, gate.lacking))}.", ""]
    if gate.numbers:
        rows = [(one.status, one.check, one.gate, _compared(one), one.reason or "") for one in gate.numbers]
        lines += ["### Gates", "", *_table(("result", "check", "gate", "compared", "reason"), rows), ""]
    if gate.waivers:
        given = [(one.status, one.check, one.expires, one.name, one.reason) for one in gate.waivers]
        lines += ["### Waivers", "", *_table(("waiver", "check", "until", "accepted by", "reason"), given), ""]
    return lines


def _compared(one: LimitResult) -> str:
    return "" if one.compared is None else in_format(one.compared, one.format)


def _not_run(results: Results) -> list[str]:
    rows = [(check.status, check.id, check.reason or "") for check in results.checks if check.status != "ran"]
    if not rows:
        return []
    table = _table(("", "check", "reason"), rows)
    return ["<details><summary>", f"{len(rows)} checks did not run", "</summary>", "", *table, "", "</details>", ""]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return [*lines, *(f"| {' | '.join(map(md, row))} |" for row in rows)]


def _model_index(results: Results) -> list[str]:
    """Metadata as YAML; every text is quoted as in JSON, which YAML reads.

    The number of an unresolved check is no result, and is left out.
    """
    metrics = [
        {
            "type": slug(found.name) or "metric",
            "name": visible(f"{check.title}: {found.name}", 500),
            "value": found.value,
            **({"args": {"rounded to": found.step, "bound": found.bound}} if found.step is not None else {}),
        }
        for check in results.checks
        if not (check.finding and check.finding.level == "unresolved")
        and (found := headline(check)) is not None
        and found.value is not None
    ]
    entries = [
        {
            "task": {"type": "document-question-answering", "name": "Privacy audit"},
            "dataset": {"type": visible(data.format), "name": visible(data.path, 500)},
            "metrics": metrics,
        }
        for data in results.datasets[:1]
    ]
    index = [{"name": visible(results.target.path, 500), "results": entries if metrics else []}]
    return ["tags:", "- privacy-audit", f"model-index: {json.dumps(index, ensure_ascii=False)}"]

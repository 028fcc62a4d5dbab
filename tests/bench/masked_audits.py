"""Masked audits of simulated answers: python -m tests.bench.masked_audits FOLDER [FCC_ADBUY].

A model reads pages of members a little better, and gives the name on three of ten of their scrubbed pages. The corpora
are 50 members and 50 others of the demo's, and, where its folder is given, political advertisements of television
stations. ``tests.bench.budget_loss`` counts what the reports lose.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.renderers import render_all
from pfl_audit.core.runner import run_audit
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.readers.fcc_adbuy import import_fcc_adbuy
from pfl_audit.documents.scrubbing.questions import scrubbed_questions
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.files import sha256_json
from pfl_audit.progress import Silent

RED = Path(__file__).parents[2] / "fixtures" / "red" / "demo.jsonl"
CHECKS = ("memorization.provider_name", "memorization.generalisation", "membership.azk")
READS, REMEMBERS = (0.92, 0.85), (0.3, 0.02)
"""Shares of right answers about members and others, on pages and on scrubbed pages."""
EACH = 50
"""Companies of each class."""


def main() -> None:
    """Audit, and print the folder and the verdict of each."""
    base = Path(sys.argv[1])
    red = open_corpus(RED, "red")
    some = {*sorted(red.members())[:EACH], *sorted(red.non_members())[:EACH]}
    audit(base / "fifty-fifty", red.where(lambda query: query.document.provider in some))
    for folder in sys.argv[2:]:
        audit(base / "fcc-adbuy", import_fcc_adbuy(Path(folder), 0).audit)


def audit(place: Path, corpus: Corpus) -> None:
    """Audit a simulated model with a corpus; the run lies in ``run``."""
    write_jsonl(corpus, place / "red")
    red = open_corpus(place / "red", "red")
    members = red.members()
    scrubbed = scrubbed_questions(red, "provider_name", seed=0).queries
    lines = [
        {"id": query.id, "answer": _answer(query, rates, member=query.document.provider in members), "confidence": 0.9}
        for queries, rates in ((red.queries, READS), (scrubbed, REMEMBERS))
        for query in queries
    ]
    (place / "answers.jsonl").write_text("\n".join(map(json.dumps, lines)))
    inputs = {"questions": {"red": place / "red", "answers": place / "answers.jsonl"}}
    found = run_audit(AuditPlan(title=place.name, out=place / "run", inputs=inputs, checks=CHECKS), Silent())
    render_all(found, place / "run")
    print(place / "run", found.verdict.summary, flush=True)


def _answer(query: Query, rates: tuple[float, float], *, member: bool) -> str:
    draw = int(sha256_json([query.id, rates])[:8], 16) / 2**32
    return query.answers[0] if draw < rates[not member] else "no idea"


if __name__ == "__main__":
    main()

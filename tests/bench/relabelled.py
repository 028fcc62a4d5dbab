"""Audits of models that saw neither class: python -m tests.bench.relabelled RED MODEL CONTROL OUT [SHUFFLES].

Providers of RED are sorted into two classes by something that no training decided: whether they are asked for payment
terms, the title of their pages, the dates on them; and SHUFFLES times (10 by default) at random. MODEL, which saw
none of them or all of them alike, is audited on provider membership with CONTROL beside it, which saw none. A leak is
an error. Prints a line an audit; killed, the same command goes on, and the models are asked each question once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.results import read_results
from pfl_audit.core.runner import run_audit
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Membership, Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.fitness.document_features import dates_in
from pfl_audit.progress import Silent

_SPLITS = {Membership.MEMBER: "red_test_positive", Membership.NON_MEMBER: "red_test_negative"}


def _by_key(queries: list[Query]) -> float:
    return float(any(query.key == "payment_terms" for query in queries))


def _by_title(queries: list[Query]) -> float:
    return float(any("STATEMENT" in query.document.words for query in queries))


def _by_date(queries: list[Query]) -> float:
    days = [day for query in queries for day in dates_in(" ".join(query.document.words))]
    return float(np.mean([12 * year + month for year, month in days])) if days else 0.0


SORTED: dict[str, Callable[[list[Query]], float]] = {"key": _by_key, "title": _by_title, "date": _by_date}
"""What a provider is sorted by: members are those above the median, or those that have it."""


def labels(corpus: Corpus, case: str) -> dict[str, Membership]:
    """The classes of a case; the lots of ``shuffle-N`` are drawn from N and keep the sizes of the classes."""
    names = sorted({query.document.provider for query in corpus.queries})
    if case in SORTED:
        of = {name: [query for query in corpus.queries if query.document.provider == name] for name in names}
        values = np.array([SORTED[case](of[name]) for name in names])
        chosen = values > np.median(values) if case == "date" else values > 0
    else:
        chosen = np.array([corpus.membership[name] is Membership.MEMBER for name in names])
        chosen = np.random.default_rng([31, int(case.removeprefix("shuffle-"))]).permutation(chosen)
    return {
        name: Membership.MEMBER if member else Membership.NON_MEMBER for name, member in zip(names, chosen, strict=True)
    }


def relabel(corpus: Corpus, membership: dict[str, Membership]) -> Corpus:
    """The corpus with other classes."""

    def moved(query: Query) -> Query:
        split = _SPLITS[membership[query.document.provider]]
        return replace(query, document=replace(query.document, split=split))

    return replace(corpus, queries=tuple(moved(query) for query in corpus.queries), membership=membership)


def audit(corpus: Corpus, case: str, model: str, control: str, out: Path) -> str:
    """A line about the audit of a case."""
    classes, run = labels(corpus, case), out / case
    if not (run / "results.json").is_file():
        red = out / "red" / case
        if not (red / "corpus.jsonl").is_file():
            write_jsonl(relabel(corpus, classes), red)
        plan = AuditPlan(
            case, run, model, {"questions": {"red": red, "control": control}}, checks=("membership",), fail_on="never"
        )
        run_audit(replace(plan, store=out / "responses.sqlite"), Silent())
    checks = read_results(run).checks
    found = next(check.finding for check in checks if check.id == "membership.provider")
    members = sum(one is Membership.MEMBER for one in classes.values())
    return f"{case} | {members} / {len(classes) - members} | " + (
        f"{found.level} | {found.text}" if found else "not run"
    )


def cases(shuffles: int) -> Iterable[str]:
    """Names of all cases."""
    return [*SORTED, *(f"shuffle-{number}" for number in range(shuffles))]


if __name__ == "__main__":
    corpus = open_corpus(Path(sys.argv[1]), "red")
    for case in cases(int(sys.argv[5]) if len(sys.argv) > 5 else 10):
        print(audit(corpus, case, sys.argv[2], sys.argv[3], Path(sys.argv[4])), flush=True)

"""What a masked report lets its reader conclude: python -m tests.bench.masking [FCC_ADBUY].

The reader holds the list of all suppliers and the whole corpus: every page, value, label and number. He masks all of it
in the same way and looks for what fits. A model that knows every company fills the report. Chance is what he has
without the report.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from PIL import Image
from scipy.stats import spearmanr

from pfl_audit.attacks.memorization.evidence import keep_evidence
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import Answers
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.keyed import run_key
from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Results
from pfl_audit.core.runner import run_audit
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.documents.keys import PROVIDER_KEYS
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.readers.fcc_adbuy import import_fcc_adbuy
from pfl_audit.documents.scrubbing.questions import ScrubbedQuestions, scrubbed_questions
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.files import sha256_json
from pfl_audit.models.protocol import Response
from pfl_audit.progress import Silent
from pfl_audit.reports.html import render

RED = Path(__file__).parents[2] / "fixtures" / "red"
NAME = "provider_name"
PLACE = "Secret-Place"
PAGES = 200
FEWEST = 9
ORDER_LIMIT = 1.96
"""Standard deviations that a rank correlation keeps within in 95 % of random orders."""
Row = tuple[str, str, str]


def main() -> None:
    """Print a table a corpus, as Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / PLACE
        show("Embedded corpus (fixtures/red)", measure(RED, place / "red"))
        for source in sys.argv[1:]:
            write_jsonl(import_fcc_adbuy(Path(source), 0).audit, place / "fcc")
            show("fcc-adbuy", measure(place / "fcc", place / "fcc-run"))


def show(title: str, rows: Iterable[Row]) -> None:
    """Print one table."""
    print(f"\n{title}\n\n| what the reader looks at | what it tells him | chance |\n| --- | --- | --- |")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def measure(folder: Path, out: Path) -> list[Row]:
    """Every row about a corpus."""
    red = open_corpus(folder, "red")
    asked = scrubbed_questions(red, NAME, seed=0).queries
    shown = [_evidence(red, query, out / "shown" / str(number)) for number, query in enumerate(asked)]
    results, hide = _audit(red, folder, out / "run")
    return [
        *_masks(red),
        *_pictures(asked, [picture for picture, _ in shown]),
        _facts(asked, [facts for _, facts in shown]),
        *_orders(red, results, hide),
        *_counts(red, results, hide),
        _travelling(red, out / "run"),
    ]


def _masks(red: Corpus) -> Iterable[Row]:
    """Values that no other value of their kind shares a mask with."""
    for key in (NAME, "provider_address", "provider_email", "provider_phone"):
        values = {query.answers[0] for query in red.queries if query.key == key} if key != NAME else {*red.providers}
        if values:
            masks = Counter(_mask(value, key) for value in values)
            unique = sum(number == 1 for number in masks.values())
            yield f"masks of {len(values)} values ({key})", f"{unique} are unique", "0"


def _mask(value: str, key: str) -> str:
    return Redactor("salt").value(value, key)


def _pictures(asked: Sequence[Query], files: Sequence[Path]) -> Iterable[Row]:
    """Nearest neighbours among the masked pictures of all pages."""
    vectors = np.stack([_vector(file) for file in files])
    tried = np.random.default_rng(0).permutation(len(asked))[:PAGES]
    companies = [query.document.provider for query in asked]
    found = sum(_hits(vectors, at, [other == at for other in range(len(asked))]) for at in tried)
    yield f"the picture: which of {len(asked)} pages", _of(found, len(tried)), _of(len(tried) / len(asked), len(tried))
    several = [at for at, company in enumerate(companies) if companies.count(company) > 1]
    same = [[other != at and companies[other] == companies[at] for other in range(len(asked))] for at in several]
    right = sum(_hits(vectors, at, hits, without=at) for at, hits in zip(several, same, strict=True))
    guess = sum(sum(hits) / (len(asked) - 1) for hits in same)
    yield "the picture: whose page, by the company's other pages", _of(right, len(several)), _of(guess, len(several))


def _hits(vectors: np.ndarray, at: int, right: Sequence[bool], without: int | None = None) -> float:
    """Share of right pages among those nearest to a picture; where all are alike, that is a guess."""
    distance = ((vectors - vectors[at]) ** 2).sum(axis=1)
    if without is not None:
        distance[without] = np.inf
    nearest = distance <= distance.min() + 1e-9
    return float(np.asarray(right)[nearest].mean())


def _vector(file: Path) -> np.ndarray:
    with Image.open(file) as picture:
        return np.asarray(picture.convert("RGB").resize((42, 60)), dtype=np.float32).ravel()


def _facts(asked: Sequence[Query], facts: Sequence[dict[str, Any]]) -> Row:
    """Pages whose facts beside the picture fit one company alone."""
    companies = defaultdict(set)
    signs = [json.dumps({name: value for name, value in one.items() if name != "provider"}) for one in facts]
    for query, sign in zip(asked, signs, strict=True):
        companies[sign].add(query.document.provider)
    fixed = sum(len(companies[sign]) == 1 for sign in signs)
    least = min(map(len, companies.values()))
    return (
        "what is asked, mask, class, confidence",
        f"{_of(fixed, len(asked))} fix the company; at least {least} companies fit",
        "0",
    )


def _orders(red: Corpus, results: Results, hide: Redactor) -> Iterable[Row]:
    """Lists of pseudonyms whose order goes with the names behind them."""
    names = [*red.providers, *(page.id for page in red.documents)]
    ratios = []
    for check in results.checks:
        own = hide.within(check.id)
        behind = {shown(name): name for name in names for shown in (own.name, own.page)}
        for table in check.tables:
            classes = {row[1] for row in table.rows} if table.columns[1:2] == ["Class"] else {None}
            for label in classes:
                listed = [str(row[0]) for row in table.rows if label in (None, row[1])]
                found = [behind[name] for name in listed if name in behind]
                if len(found) > FEWEST:
                    rank = spearmanr(range(len(found)), np.argsort(np.argsort(found))).statistic
                    ratios.append(abs(rank) * np.sqrt(len(found) - 1) / ORDER_LIMIT)
    over = sum(ratio > 1 for ratio in ratios)
    what = "order of rows: rank correlation with the names beyond the 95 % limit"
    yield what, f"{_of(over, len(ratios))} tables", _of(0.05 * len(ratios), len(ratios))


def _counts(red: Corpus, results: Results, hide: Redactor) -> Iterable[Row]:
    """Companies that are alone in their class with the number that a table gives."""
    alone = rows = 0
    for check in results.checks:
        for table in check.tables:
            if table.columns[:3] == ["Provider", "Class", "Pages"]:
                asked = scrubbed_questions(red, check.id.split(".")[1], seed=0).queries
                pages = Counter(query.document.provider for query in asked)
                fits = Counter((red.label(who).replace("_", "-"), hide.count(count)) for who, count in pages.items())
                alone += sum(fits[str(row[1]), row[2]] == 1 for row in table.rows)
                rows += len(table.rows)
    yield "numbers of pages of a company, with its class", f"{_of(alone, rows)} fix the company", "0"


def _travelling(red: Corpus, run: Path) -> Row:
    """Names, values, ids, folders, user and host in what is passed on, and in the names of its files."""
    texts = [path.read_text() for path in (run / "results.json", run / "report.html")]
    texts += [str(path.relative_to(run)) for path in run.rglob("*") if "private" not in path.parts]
    text = re.sub(r'"data:[^"]*"', "", "\n".join(texts).lower())
    keys = {NAME, "provider_email", "provider_phone", "tax_number", "registration_id"}
    secrets = {*red.providers, *(page.id for page in red.documents)}
    secrets |= {query.answers[0] for query in red.queries if query.key in keys}
    places = {str(run), str(Path.cwd()), str(Path.home()), PLACE, socket.gethostname(), f"{getpass.getuser()}@"}
    found, where = (
        sum(len(one) > 1 and bool(re.search(rf"(?<!\w){re.escape(one.lower())}(?!\w)", text)) for one in some)
        for some in (secrets, places)
    )
    return (
        "results.json, report.html, names of files",
        f"{found} names, ids, values; {where} folders, users, hosts",
        "0",
    )


def _evidence(red: Corpus, query: Query, out: Path) -> tuple[Path, dict[str, Any]]:
    """A page's picture and facts, from a model that knows the answer."""
    said, hide = Answers({query.id: Response(query.answers[0], 0.95)}), Redactor("salt")
    context = cast("QuestionContext", SimpleNamespace(red=red, evidence=EvidenceBox(out), redactor=hide))
    (found,) = keep_evidence(context, hide, 1, 1, ScrubbedQuestions(NAME, (query,), ()), said, None)
    return out / str(found.picture), found.facts


def _said(red: Corpus, query: Query) -> str:
    """A model that knows members, and others now and then."""
    knows = query.document.provider in red.members() or sha256_json(query.id) < "5"
    return query.answers[0] if knows else "no idea"


def _audit(red: Corpus, folder: Path, out: Path) -> tuple[Results, Redactor]:
    """A whole audit from recorded answers, and what made its pseudonyms."""
    keyed = [query for key in PROVIDER_KEYS for query in scrubbed_questions(red, key, seed=0).queries]
    lines = [
        json.dumps({"id": query.id, "answer": _said(red, query), "confidence": 0.9}) for query in (*red.queries, *keyed)
    ]
    out.mkdir(parents=True)
    answers = out.parent / "answers.jsonl"
    answers.write_text("\n".join(lines))
    checks = (*(f"memorization.{key}" for key in PROVIDER_KEYS), "memorization.generalisation", "membership.azk")
    command = f"pfl-audit audit --answers {answers} --red {folder.resolve()} --out {out}"
    plan = AuditPlan(
        "Masked",
        out,
        inputs={"questions": {"red": folder.resolve(), "answers": answers}},
        checks=checks,
        command=command,
    )
    results = run_audit(plan, Silent())
    render(results, out)
    return results, Redactor(run_key(out).hex())


def _of(number: float, of: int) -> str:
    return f"{number:.0f} of {of}" if abs(number - round(number)) < 1e-6 else f"{number:.1f} of {of}"


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()

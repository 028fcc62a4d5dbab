"""Keep what two checkpoints answer about scrubbed pages of RED, so that tests can go through it without them.

python -m tests.attacks.memorization_case TARGET PRETRAINED RED OUT, which writes one file a key below OUT.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pfl_audit.attacks.memorization.exposure import draw_candidates
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.scrubbing.questions import scrubbed_questions
from pfl_audit.documents.scrubbing.residual import residual_identifiers
from pfl_audit.models.open import open_model
from pfl_audit.models.protocol import Response, Score
from pfl_audit.progress import Silent

KEYS = ("provider_email", "provider_name")
MODELS = ("target", "pre-trained")


def keep(red: Corpus, engines: Mapping[str, QueryEngine], key: str) -> list[dict[str, object]]:
    """A row a page: what both models say, and for one page a provider what they think of other values."""
    queries = [
        query
        for query in scrubbed_questions(red, key, seed=0).queries
        if red.label(query.document.provider) is not Membership.UNKNOWN
    ]
    clues = {query.id for query in queries if residual_identifiers(query.document, query.answers[0])}
    drawn = draw_candidates(queries, clues, np.random.default_rng(0))
    rows: list[dict[str, object]] = [
        {
            "page": query.document.id,
            "provider": query.document.provider,
            "member": red.label(query.document.provider) is Membership.MEMBER,
            "clue": query.id in clues,
            "value": query.answers[0],
        }
        | ({"others": drawn[query][1:]} if query in drawn else {})
        for query in queries
    ]
    for name, engine in engines.items():
        answers = engine.ask(queries, key)
        scores = engine.candidates(drawn, key)
        for query, row in zip(queries, rows, strict=True):
            said = answers[query]
            row[name] = {
                "answer": said.answer,
                "confidence": round(said.confidence or 0.0, 4),
                "loss": round(said.loss or 0.0, 4),
                "tokens": said.tokens,
            } | ({"others": [[round(s.loss, 3), s.tokens] for s in scores[query.id][1:]]} if query in drawn else {})
    return rows


def load(path: Path) -> tuple[list[dict[str, object]], list[Query], dict[str, dict[str, Response]]]:
    """Rows, their questions (about pages without words), and each model's responses by query id."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    queries = [
        Query(
            row["page"],
            Document(row["page"], row["provider"], (), np.zeros((0, 4), np.float32)),
            "?",
            (row["value"],),
            path.stem,
        )
        for row in rows
    ]
    said = {
        name: {
            row["page"]: Response(*(row[name][part] for part in ("answer", "confidence", "loss", "tokens")))
            for row in rows
        }
        for name in MODELS
    }
    return rows, queries, said


def candidates(
    rows: list[dict[str, object]], queries: list[Query], name: str
) -> tuple[dict[Query, tuple[str, ...]], dict[str, list[Score]]]:
    """What was compared, and the scores of a model."""
    drawn, scores = {}, {}
    for row, query in zip(rows, queries, strict=True):
        if "others" in row:
            said = row[name]
            drawn[query] = (row["value"], *row["others"])
            scores[query.id] = [Score(said["loss"], said["tokens"]), *(Score(*one) for one in said["others"])]
    return drawn, scores


if __name__ == "__main__":
    target, pretrained, red, out = map(Path, sys.argv[1:])
    with ResponseStore(out / "responses.sqlite") as store:
        engines = {
            name: QueryEngine(open_model(str(folder), device="cpu", download=False), store, Silent())
            for name, folder in zip(MODELS, (target, pretrained), strict=True)
        }
        corpus = open_corpus(red, "red")
        for wanted in KEYS:
            lines = [json.dumps(row, ensure_ascii=False) for row in keep(corpus, engines, wanted)]
            (out / f"{wanted}.jsonl").write_text("\n".join(lines) + "\n")

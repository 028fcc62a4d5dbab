"""What private models learn: private_learning_table.py CORPUS START MODEL [MODEL ...].

Mean ANLS on the pages of companies outside the training set, the gain over the start, and the difference to the first
model, both on the same questions, with 95 % intervals over companies. Scores are kept in
MODEL.scores.json beside each model.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from pfl_audit.documents.document import Membership, Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.files import write_json
from pfl_audit.metrics.answers import anls
from pfl_audit.metrics.intervals import Estimate, bootstrap_weights, resampled_mean
from pfl_audit.models.vt5.model import Vt5Model

_BATCH = 32


def main(corpus: Path, start: Path, *models: Path) -> None:
    """Print the table."""
    red = open_corpus(corpus, "red")
    asked = [query for query in red.queries if red.membership[query.document.provider] is Membership.NON_MEMBER]
    names, groups = np.unique([query.document.provider for query in asked], return_inverse=True)
    counts = np.bincount(groups).astype(float)
    weights = bootstrap_weights(np.zeros(len(names), dtype=bool), np.random.default_rng(0))
    first: np.ndarray | None = None
    before = scores(start, asked, corpus.parent / f"{corpus.name}-start.scores.json")
    print(f"{len(asked)} questions on pages of {len(names)} companies\n")
    print("| model | ANLS | gain over the start | less the first model |\n| --- | --- | --- | --- |")
    for model in (start, *models):
        after = before if model is start else scores(model, asked, model.with_name(f"{model.name}.scores.json"))
        first = after if first is None and model is not start else first
        compared = (after, after - before, *([after - first] if first is not None else []))
        cells = [resampled_mean(np.bincount(groups, values), counts, weights) for values in compared]
        print(f"| {model.name} | {' | '.join(map(text, cells))} |")


def scores(model: Path, queries: list[Query], kept: Path) -> np.ndarray:
    """ANLS of every answer, in the order of the queries."""
    if not kept.is_file():
        opened = Vt5Model(model)
        order = sorted(range(len(queries)), key=lambda at: opened.cost(queries[at]))
        found = np.empty(len(queries))
        for at in range(0, len(order), _BATCH):
            batch = order[at : at + _BATCH]
            answers = opened.respond([queries[one] for one in batch])
            found[batch] = [anls(given.answer, queries[one].answers) for one, given in zip(batch, answers, strict=True)]
        write_json(kept, found.tolist(), private=False)
    return np.array(json.loads(kept.read_text(encoding="utf-8")))


def text(found: Estimate) -> str:
    """In per cent, with the interval."""
    return f"{100 * found.value:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

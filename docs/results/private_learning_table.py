"""What private models learn: private_learning_table.py CORPUS START MODEL [MODEL ...].

Mean ANLS on the pages of companies outside the training set, the gain over the start, and the difference to the first
model, both on the same questions, with 95 % intervals over companies. Models NAME-SEED that differ in their seed alone
have a line of their mean too, which is compared with the first such mean. Scores are kept in MODEL.scores.json beside
each model. The variable DEVICE is where the models are asked; cpu by default.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from pfl_audit.documents.document import Membership, Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError
from pfl_audit.files import write_json
from pfl_audit.inputs import require_folder
from pfl_audit.metrics.answers import anls
from pfl_audit.metrics.intervals import Estimate, bootstrap_weights, resampled_mean
from pfl_audit.models.vt5.model import Vt5Model

_BATCH = 32


class HeldOut:
    """Questions on pages of the companies outside the training set.

    Attributes:
        queries: The questions.
        companies: Number of companies.
    """

    def __init__(self, corpus: Path) -> None:
        """Open the corpus."""
        red = open_corpus(corpus, "red")
        self._corpus = corpus
        self.queries = [one for one in red.queries if red.membership[one.document.provider] is Membership.NON_MEMBER]
        names, self._groups = np.unique([query.document.provider for query in self.queries], return_inverse=True)
        self.companies = len(names)
        self._counts = np.bincount(self._groups).astype(float)
        self._weights = bootstrap_weights(np.zeros(len(names), dtype=bool), np.random.default_rng(0))

    def __str__(self) -> str:
        return f"{len(self.queries)} questions on pages of {self.companies} companies"

    def start(self, model: Path) -> np.ndarray:
        """ANLS of every answer of a start, which may lie where nothing is written."""
        return scores(model, self.queries, self._corpus.parent / f"{self._corpus.name}-start.scores.json")

    def scores(self, model: Path) -> np.ndarray:
        """ANLS of every answer of a trained model."""
        return scores(model, self.queries, kept_of(model))

    def mean(self, values: np.ndarray) -> str:
        """Mean of a value per question, in per cent, with the 95 % interval over companies."""
        return text(resampled_mean(np.bincount(self._groups, values), self._counts, self._weights))


def main(corpus: Path, start: Path, *models: Path) -> None:
    """Print the table."""
    for model in models:
        if not kept_of(model).is_file():
            require_folder(model, "Give the folder of a trained model, or its scores beside it")
    held = HeldOut(corpus)
    before = held.start(start)
    print(f"{held}\n")
    print("| model | ANLS | gain over the start | less the first model |\n| --- | --- | --- | --- |")
    print(f"| {start.name} | {held.mean(before)} | {held.mean(before - before)} | |")
    found = {model.name: held.scores(model) for model in models}
    seeds: dict[str, list[np.ndarray]] = {}
    for name, after in found.items():
        group, _, seed = name.rpartition("-")
        if seed.isdecimal():
            seeds.setdefault(group, []).append(after)
    means = {f"{name}, {len(some)} seeds": np.mean(some, axis=0) for name, some in seeds.items() if len(some) > 1}
    for lines in (found, means):
        for name, after in lines.items():
            first = next(iter(lines.values()))
            print(f"| {name} | {' | '.join(map(held.mean, (after, after - before, after - first)))} |")


def kept_of(model: Path) -> Path:
    """Where the scores of a trained model are kept."""
    return model.with_name(f"{model.name}.scores.json")


def scores(model: Path, queries: list[Query], kept: Path) -> np.ndarray:
    """ANLS of every answer, in the order of the queries."""
    if not kept.is_file():
        opened = Vt5Model(model, os.environ.get("DEVICE", "cpu"))
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
    if len(sys.argv) < 4:
        sys.exit("usage: private_learning_table.py CORPUS START MODEL [MODEL ...]")
    try:
        main(*map(Path, sys.argv[1:]))
    except AuditError as error:
        sys.exit(f"error: {error}")

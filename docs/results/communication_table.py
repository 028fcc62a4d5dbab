"""ANLS against bytes: communication_table.py CORPUS START BASELINE [MODEL ...].

Mean ANLS on the pages of companies outside the training set, and the difference to the first model on the same
questions, with 95 % intervals over companies. Messages and bytes are those of the model's training.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from private_learning_table import scores, text

from pfl_audit.documents.document import Membership
from pfl_audit.documents.readers import open_corpus
from pfl_audit.metrics.intervals import bootstrap_weights, resampled_mean


def main(corpus: Path, start: Path, *models: Path) -> None:
    """Print the table."""
    red = open_corpus(corpus, "red")
    asked = [query for query in red.queries if red.membership[query.document.provider] is Membership.NON_MEMBER]
    names, groups = np.unique([query.document.provider for query in asked], return_inverse=True)
    counts = np.bincount(groups).astype(float)
    weights = bootstrap_weights(np.zeros(len(names), dtype=bool), np.random.default_rng(0))
    found = {model: scores(model, asked, model.with_name(f"{model.name}.scores.json")) for model in models}
    found[start] = scores(start, asked, corpus.parent / "start.scores.json")
    print(f"{len(asked)} questions on pages of {len(names)} companies\n")
    print(
        "| model | messages | bytes a message | MB | MB, the papers' way | ANLS | less the baseline |\n|" + " --- |" * 7
    )
    for model in (start, *models):
        gap = found[model] - found[models[0]]
        cells = [text(resampled_mean(np.bincount(groups, values), counts, weights)) for values in (found[model], gap)]
        print(f"| {' | '.join([model.name, *sent(model), *cells])} |")


def sent(model: Path) -> list[str]:
    """Messages, bytes of one, and megabytes in two counts, of a model's training."""
    record = json.loads((model / "training.json").read_text(encoding="utf-8"))
    log = record.get("communication")
    if log is None:
        return ["", "", "", ""]
    papers = log["messages"] * log["papers_way"]["bytes_a_message"]
    return [str(log["messages"]), f"{log['bytes_a_message']:,}", f"{log['bytes'] / 1e6:.1f}", f"{papers / 1e6:.1f}"]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

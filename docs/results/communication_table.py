"""ANLS against bytes: communication_table.py CORPUS START BASELINE [MODEL ...].

Mean ANLS on the pages of companies outside the training set, and the difference to the first model on the same
questions, with 95 % intervals over companies. Messages and bytes are those of the model's training.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from private_learning_table import HeldOut


def main(corpus: Path, start: Path, *models: Path) -> None:
    """Print the table."""
    held = HeldOut(corpus)
    found = {model: held.scores(model) for model in models} | {start: held.start(start)}
    print(f"{held}\n")
    print(
        "| model | messages | bytes a message | MB | MB, the papers' way | ANLS | less the baseline |\n|" + " --- |" * 7
    )
    for model in (start, *models):
        gap = found[model] - found[models[0]]
        cells = [held.mean(values) for values in (found[model], gap)]
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

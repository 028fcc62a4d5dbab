"""The table of the models that systems.sh trained: systems_table.py FOLDER CORPUS START.

ANLS is that on the pages of companies outside the training set, mean over the seeds, and the gain over the start on the
same questions, with 95 % intervals over companies. The noise is the standard deviation that one round adds to a weight.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from private_learning_table import HeldOut

SYSTEMS = {
    "provider": "FL-PROVIDER-DP",
    "group": "FL-GROUP-DP",
    "group_mean": "FL-GROUP-DP, plain mean",
    "clgecl": "DP-CLGECL",
    "clgecl_zero": "DP-CLGECL, dual from 0",
    "clgecl_all": "DP-CLGECL, dual from 0, all clients",
}


def noise_of_a_round(record: dict[str, Any]) -> float:
    """Standard deviation that a round adds to a weight, in rounds with the expected number of clients."""
    claim = record["privacy"]
    messages = claim["sampling"]["client_rate"] * record["clients"] if claim["noise"] == "message" else 1
    return float(claim["noise_multiplier"] * claim["clip"] * math.sqrt(messages) / claim["denominator"])


def row(system: str, models: Sequence[Path], held: HeldOut, before: np.ndarray) -> str:
    """A line of the table: all seeds of a system at one epsilon."""
    record = read_record(models[0])
    claim = record["privacy"]
    scores = np.mean([held.scores(model) for model in models], axis=0)
    cells = (
        SYSTEMS[system],
        f"{claim['epsilon']:.3f}",
        " ".join(claim["adjacency"].split()[:3]).removesuffix(" one"),
        f"{claim['noise_multiplier']:.4f}",
        f"{noise_of_a_round(record):.2e}",
        str(len(models)),
        held.mean(scores),
        held.mean(scores - before),
    )
    return f"| {' | '.join(cells)} |"


def read_record(model: Path) -> dict[str, Any]:
    """The public record of a training."""
    record: dict[str, Any] = json.loads((model / "training.json").read_text(encoding="utf-8"))
    return record


def main(folder: Path, corpus: Path, start: Path) -> None:
    """Print the table as Markdown."""
    runs: dict[tuple[float, str], list[Path]] = {}
    for path in sorted(path.parent for path in folder.glob("*/model.safetensors")):
        system, epsilon, _ = path.name.split("-")
        runs.setdefault((-float(epsilon.removeprefix("eps")), system), []).append(path)
    held = HeldOut(corpus)
    before = held.start(start)
    print(f"{held}, start {held.mean(before)}\n")
    print("| system | valid ε | adjacency | σ | noise of a round | seeds | ANLS | gain |\n|" + " --- |" * 8)
    for (_, system), models in sorted(runs.items(), key=lambda item: (item[0][0], [*SYSTEMS].index(item[0][1]))):
        print(row(system, models, held, before))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

"""The table of the models that systems.sh trained: python docs/results/systems_table.py build/systems.

ANLS is that of the validation part after the last round, mean and standard deviation over the seeds. The noise is the
standard deviation of a coordinate of the weights that one round adds.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SYSTEMS = {
    "provider": "FL-PROVIDER-DP",
    "group": "FL-GROUP-DP",
    "clgecl": "DP-CLGECL",
    "clgecl_zero": "DP-CLGECL, dual from 0",
}


def noise_of_a_round(record: dict[str, Any]) -> float:
    """Standard deviation that a round adds to a weight, in rounds with the expected number of clients."""
    claim = record["privacy"]
    messages = claim["sampling"]["client_rate"] * record["clients"] if claim["noise"] == "message" else 1
    return float(claim["noise_multiplier"] * claim["clip"] * math.sqrt(messages) / claim["denominator"])


def row(system: str, records: Sequence[dict[str, Any]]) -> str:
    """A line of the table: all seeds of a system at one epsilon."""
    claim = records[0]["privacy"]
    scores = [record["history"][-1]["anls"] for record in records]
    spread = f" ± {statistics.stdev(scores):.3f}" if len(scores) > 1 else ""
    cells = (
        SYSTEMS[system],
        f"{claim['epsilon']:.3f}",
        " ".join(claim["adjacency"].split()[:3]).removesuffix(" one"),
        f"{claim['noise_multiplier']:.4f}",
        f"{noise_of_a_round(records[0]):.2e}",
        str(len(records)),
        f"{statistics.mean(scores):.3f}{spread}",
    )
    return f"| {' | '.join(cells)} |"


def main(folder: Path) -> None:
    """Print the table as Markdown."""
    runs: dict[tuple[float, str], list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.private.json")):
        system, epsilon, _ = path.name.removesuffix(".private.json").split("-")
        runs.setdefault((-float(epsilon.removeprefix("eps")), system), []).append(json.loads(path.read_text()))
    print("| system | valid ε | adjacency | σ | noise of a round | seeds | ANLS |\n|" + " --- |" * 7)
    for (_, system), records in sorted(runs.items(), key=lambda item: (item[0][0], [*SYSTEMS].index(item[0][1]))):
        print(row(system, records))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

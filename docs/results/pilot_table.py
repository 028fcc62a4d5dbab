"""Tables 3 to 7 of the federated pilot: pilot_table.py FOLDER START.

Scores are the mean over the sources of the mean ANLS over a source's questions (of yes and no that is accuracy), on
pages of companies that no client holds; first the mean over the seeds of a question's score. Intervals are 95 % over
companies; differences are on the same questions.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from private_learning_table import scores, text

from pfl_audit.attacks.memorization.scores import mean_over_sources
from pfl_audit.documents.document import Membership, Query
from pfl_audit.documents.readers import open_corpus

SOURCES = ("tables", "invoices", "statements")
FRACTIONS = ("0.35", "0.7", "1")
CLIENTS = ("3", "10")


class Pilot:
    """The models of a folder, and their scores.

    Attributes:
        queries: Questions of each source.
    """

    def __init__(self, folder: Path, start: Path) -> None:
        """Open the questions."""
        self.folder, self.start, self.queries = folder, start, list[Query]()
        self._known: dict[str, dict[str, np.ndarray]] = {}
        sources = list[str]()
        for source in SOURCES:
            red = open_corpus(folder / "asked" / source, "red")
            held = [one for one in red.queries if red.membership[one.document.provider] is Membership.NON_MEMBER]
            self.queries += held
            sources += [source] * len(held)
        self.sources = pd.Series(sources)
        self.providers = [
            f"{source} {one.document.provider}" for source, one in zip(sources, self.queries, strict=True)
        ]

    def of(self, name: str) -> dict[str, np.ndarray]:
        """Score of every question, float (questions,), by the seed of the training; of the start by an empty one."""
        if name not in self._known:
            self._known[name] = self._scores(name)
        return self._known[name]

    def _scores(self, name: str) -> dict[str, np.ndarray]:
        if name == "start":
            return {"": scores(self.start, self.queries, self.folder / "start.scores.json")}
        trained = [path.parent for path in sorted(self.folder.glob(f"{name}-[0-9]*/model.safetensors"))]
        seeds = {path.name.rsplit("-", 1)[1]: path for path in trained if path.name.rsplit("-", 1)[0] == name}
        return {
            seed: scores(path, self.queries, path.with_name(f"{path.name}.scores.json")) for seed, path in seeds.items()
        }

    def cell(self, name: str, baseline: str | None = None) -> str:
        """Score of a model, and its difference to the baseline over the seeds that both have."""
        found = self.of(name)
        if not found:
            return "not run"
        parts = [self._mean(np.mean(list(found.values()), axis=0))]
        before = self.of(baseline) if baseline not in (None, name) else {}
        both = [seed for seed in found if seed in before or "" in before]
        if both:
            apart = [found[seed] - before.get(seed, before.get("", 0)) for seed in both]
            parts.append(f"({self._mean(np.mean(apart, axis=0))})")
        return " ".join(parts)

    def by_source(self, name: str) -> list[str]:
        """Score of a model for each source."""
        if not self.of(name):
            return ["not run"] * len(SOURCES)
        found = np.mean(list(self.of(name).values()), axis=0)
        return [f"{100 * found[self.sources == source].mean():.1f}" for source in SOURCES]

    def _mean(self, values: np.ndarray) -> str:
        pages = pd.DataFrame({"unit": self.providers, "score": values})
        return text(mean_over_sources(pages, "score", self.sources, np.random.default_rng(0))[0])


def table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table as Markdown."""
    print(f"\n{title}\n\n| {' | '.join(header)} |\n|" + " --- |" * len(header))
    for row in rows:
        print(f"| {' | '.join(row)} |")


def main(folder: Path, start: Path) -> None:
    """Print the tables."""
    pilot = Pilot(folder, start)
    print(
        f"{len(pilot.queries)} questions on pages of {len(set(pilot.providers))} companies, start {pilot.cell('start')}"
    )
    rows = [[f"C {one}", *(pilot.cell(f"fedavg-{count}-{one}", "start") for count in CLIENTS)] for one in FRACTIONS]
    table("Table 3: FedAvg (difference to the start)", ["", "K 3", "K 10"], rows)
    base = "fedavg-3-0.35"
    tasks = {"none": base, "TM, LM": "tm_lm-3-0.35", "TLM": "tlm-3-0.35", "TM, LM, TLM": "avg-3-0.35"}
    rows = [[task, pilot.cell(name, base), *pilot.by_source(name)] for task, name in tasks.items()]
    table("Table 4: tasks of self-pretraining, K 3, C 0.35 (difference to none)", ["tasks", "score", *SOURCES], rows)
    rows = []
    for one in FRACTIONS:
        names = [f"avg-3-{one}" if before == one != "1" else f"avg_{before}-3-{one}" for before in FRACTIONS]
        baseline = f"fedavg-3-{one}"
        rows.append([f"C {one}", *(pilot.cell(name, baseline) for name in names), pilot.cell(baseline)])
    header = ["fine-tuning", *(f"pretraining C {one}" for one in FRACTIONS), "no pretraining"]
    table("Table 5: share of the clients, K 3 (difference to no pretraining)", header, rows)
    rows = [
        [f"K {count}, C {one}", *(pilot.cell(f"{kind}-{count}-{one}", f"fedavg-{count}-{one}") for kind in KINDS)]
        for count in CLIENTS
        for one in FRACTIONS[:2]
    ]
    header = ["", *(f"pretraining by {name}" for name in KINDS.values()), "no pretraining"]
    rows = [[*row, pilot.cell(f"fedavg-{row[0][2:].replace(', C ', '-')}")] for row in rows]
    table("Tables 6 and 7: server strategy of self-pretraining (difference to no pretraining)", header, rows)


KINDS = {"avg": "FedAvg", "avgm": "FedAvgM", "adam": "FedAdam"}

if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

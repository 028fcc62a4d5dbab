"""Questions a second by several processes against one: python -m tests.bench.workers [PROCESSES].

The embedded model, and a VT5 of base size with random weights; embedded pages. One process with one thread, one process
with all threads, and processes that share the threads, in turn. Seconds are those that pass, so that the machine has to
be idle. The time in which processes start and open the model is printed apart.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path

import torch

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.calls import Calls, InTurn
from pfl_audit.models.open import open_model
from pfl_audit.models.openings import AnswerOpening
from pfl_audit.models.processes import Processes
from pfl_audit.models.protocol import DocumentModel, Response
from pfl_audit.models.vt5.checkpoint import save_vt5
from pfl_audit.progress import Silent
from pfl_audit.training.scratch import new_vt5

FIXTURES = Path(str(resources.files("pfl_audit.fixtures")))
ROUNDS = 2
WANTED = 1.7


def main(count: int) -> None:
    """Compare the ways for both models."""
    queries = list(open_corpus(FIXTURES / "red", "red").queries)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        save_vt5(new_vt5("base", 1000, seed=0), FIXTURES / "vt5-finetuned", base, extra={})
        compare("embedded model", FIXTURES / "vt5-finetuned", queries[:800], count)
        compare("base size", base, queries[:96], count)


def compare(name: str, folder: Path, queries: list[Query], count: int) -> None:
    """Time the three ways in turn, and print the median ratios."""
    threads = torch.get_num_threads()
    model = open_model(str(folder))
    held = Processes(count).calls(AnswerOpening(str(folder), "cpu", False, None, model.fingerprint))
    print(f"{name}: start of {count} processes {asked(model, queries[: 2 * count], held)[0]:.1f} s")
    ratios: dict[str, list[float]] = {"one thread": [], f"{threads} threads": []}
    for number in range(ROUNDS):
        torch.set_num_threads(threads)
        several, answers = asked(model, queries, held)
        for (label, found), some in zip(ratios.items(), (1, threads), strict=True):
            torch.set_num_threads(some)
            alone, others = asked(model, queries, InTurn(model))
            found.append(alone / several)
            apart = max(abs((a.loss or 0.0) - (b.loss or 0.0)) for a, b in zip(answers, others, strict=True))
            print(
                f"{name}, round {number + 1}: {len(queries)} questions, one process with {label} {alone:.1f} s, "
                f"{count} processes {several:.1f} s; losses within {apart:.1e}",
                flush=True,
            )
    torch.set_num_threads(threads)
    for label, found in ratios.items():
        print(
            f"{name}: {count} processes {statistics.median(found):.2f} times one with {label} (wanted of one: {WANTED})"
        )


def asked(model: DocumentModel, queries: list[Query], calls: Calls[DocumentModel]) -> tuple[float, list[Response]]:
    """Seconds, and the answers of an engine with an empty store."""
    with tempfile.TemporaryDirectory() as scratch, ResponseStore(Path(scratch) / "store.sqlite") as store:
        begun = time.perf_counter()
        answers = QueryEngine(model, store, Silent(), calls).ask(queries, "bench")
        return time.perf_counter() - begun, [answers[query] for query in queries]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)

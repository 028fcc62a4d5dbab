"""Speed-up of a local Ray cluster by a model that sleeps: python -m tests.bench.cluster [ACTORS].

The questions of the embedded corpus go through the engine, its store and the actors as in an audit, but a batch sleeps
in place of computing, so that the figure is of what hands the batches out, and not of the processors of this machine.
Actors are started, and have opened a model, before the clock. Wanted of four actors: 3.6 times one process.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any
from unittest import mock

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.calls import Calls, InTurn
from pfl_audit.models.cluster import Cluster
from pfl_audit.models.open import open_model
from pfl_audit.models.openings import AnswerOpening
from pfl_audit.models.protocol import DocumentModel, Response
from pfl_audit.progress import Silent, Task

FIXTURES = Path(str(resources.files("pfl_audit.fixtures")))
QUESTIONS = 640
ROWS = 8
SECONDS = 0.05
"""Of a question."""
ROUNDS = 3


def slow(queries: Sequence[Query]) -> Any:
    """The call for the responses to a batch of a model that sleeps."""
    return partial(sleep_and_answer, [query.id for query in queries])


def sleep_and_answer(names: list[str], model: DocumentModel, task: Task) -> list[Response]:
    time.sleep(SECONDS * len(names))
    return [Response(f"answer to {name}", 0.5, float(len(name)), len(name)) for name in names]


def asked(model: DocumentModel, queries: list[Query], calls: Calls[DocumentModel]) -> tuple[float, list[Response]]:
    """Seconds, and the answers of an engine with an empty store."""
    with tempfile.TemporaryDirectory() as scratch, ResponseStore(Path(scratch) / "store.sqlite") as store:
        engine = QueryEngine(model, store, Silent(), calls)
        begun = time.perf_counter()
        answers = engine.ask(queries, "bench")
        return time.perf_counter() - begun, [answers[query] for query in queries]


def main(count: int) -> None:
    """Compare one process with a cluster of one machine with so many actors."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster as Machines

    queries = list(open_corpus(FIXTURES / "red", "red").queries)[:QUESTIONS]
    folder = FIXTURES / "vt5-finetuned"
    model = open_model(str(folder))
    begun = time.perf_counter()
    given = {"num_cpus": count, "num_gpus": 0, "object_store_memory": 80 << 20, "include_dashboard": False}
    machines = Machines(initialize_head=True, head_node_args=given)
    held = Cluster(machines.address, count, "cpu").calls(
        AnswerOpening(str(folder), "cpu", False, None, model.fingerprint)
    )
    with (
        mock.patch("pfl_audit.attacks.questions.engine.responses", slow),
        mock.patch.object(type(model), "batch_size", return_value=ROWS),
    ):
        asked(model, queries[: ROWS * count], held)
        print(f"start of {count} actors: {time.perf_counter() - begun:.1f} s", flush=True)
        alone, answers = asked(model, queries, InTurn(model))
        for number in range(ROUNDS):
            several, others = asked(model, queries, held)
            assert answers == others
            print(
                f"round {number + 1}: {len(queries)} questions, {SECONDS} s each: one process {alone:.1f} s, "
                f"{count} actors {several:.1f} s: {alone / several:.2f} times",
                flush=True,
            )
    ray.shutdown()
    machines.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)

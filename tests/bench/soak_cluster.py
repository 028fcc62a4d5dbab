"""Kills of an audit and of its actors on Ray: OMP_NUM_THREADS=1 python -m tests.bench.soak_cluster [KILLS] [SEED].

A Ray cluster of two machines with a processor each, as processes of this one, stays up. An audit with an actor on each
is started again and again, and the audit or one of its actors is killed by SIGKILL at a random moment while questions
are asked, until there were so many kills. Each time an audit ends, its results and its store are compared with those of
an uninterrupted audit by one process. Batches are of two questions and wait 0.15 s each. It prints what
``tests.bench.soak`` prints for processes of one machine.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from unittest import mock

from pfl_audit.attacks.questions.calls import Asked
from pfl_audit.cli.process import restrain
from pfl_audit.documents.document import Query
from pfl_audit.models.protocol import DocumentModel, Response
from tests.bench.soak import Toll, asked, audit, children, drawn, note_asked, results, small_batches

ROOT = Path(__file__).parents[2]
SLEEP = 0.15
PAUSE = 3.0
"""Largest time between the next question and a kill, in seconds."""


def main(kills: int, seed: int) -> None:
    """Kill, and print what it cost."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster as Machines

    rng, began = random.Random(seed), time.monotonic()
    given = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 80 << 20}
    machines = Machines(initialize_head=True, head_node_args={**given, "include_dashboard": False})
    machines.add_node(**given)
    machines.wait_for_nodes()
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        words = drawn(place)
        log = place / "log"
        drive(place / "whole", log, "", words).wait()
        toll = Toll(log, results(place / "whole"), len(asked(log)))
        while toll.kills < kills:
            out = toll.begin(place)
            while not (out / "results.json").exists():
                driver, before = drive(out, log, machines.address, words), toll.kills
                while toll.kills < kills and not ended(driver, log):
                    time.sleep(rng.uniform(0, PAUSE))
                    victim = rng.choice([driver.pid, *actors(os.getpid())])
                    toll.kill(victim, "the audit" if victim == driver.pid else "an actor")
                    if victim == driver.pid:
                        break
                driver.wait()
                toll.require_results(out, before)
            toll.end(out)
    machines.shutdown()
    print(f"{toll.line()} in {time.monotonic() - began:.0f} s")


def drive(out: Path, log: Path, address: str, words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start an audit by the actors of a cluster, or by one process where there is no address."""
    code = [sys.executable, "-m", "tests.bench.soak_cluster", "drive", str(out), str(log), address, *words]
    return subprocess.Popen(code, cwd=ROOT)


def audit_slowly(out: str, log: str, address: str, *words: str) -> None:
    """The audit itself: what is asked is noted where it is asked."""
    restrain()
    small_batches(Path(log))
    how = ("--cluster", address, "--workers", "1") if address else ()
    with mock.patch("pfl_audit.attacks.questions.engine.responses", partial(slow, log)):
        audit(Path(out), words, how)


def slow(log: str, queries: Sequence[Query]) -> Asked[list[Response]]:
    """The call for the responses to a batch of a model that sleeps first."""
    return Asked(tuple(queries), partial(sleep_and_answer, log))


def sleep_and_answer(log: str, queries: Sequence[Query], model: DocumentModel) -> list[Response]:
    """Note what is asked, sleep and answer."""
    note_asked(Path(log), model, queries)
    time.sleep(SLEEP)
    return model.respond(queries)


def ended(driver: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait until something more is asked; whether the audit has ended before."""
    before = log.stat().st_size if log.exists() else 0
    while not log.exists() or log.stat().st_size == before:
        if driver.poll() is not None:
            return True
        time.sleep(0.01)
    return False


def actors(process: int) -> Iterator[int]:
    """Processes of actors that hold models, below a process."""
    for child in children(process):
        try:
            title = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"ray::_Models"):
            yield child
        yield from actors(child)


if __name__ == "__main__":
    if sys.argv[1:2] == ["drive"]:
        audit_slowly(*sys.argv[2:])
    else:
        main(*map(int, [*sys.argv[1:], *("20", "0")[len(sys.argv) - 1 :]]))

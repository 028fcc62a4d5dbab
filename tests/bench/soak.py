"""Kills of an audit and of its processes: OMP_NUM_THREADS=1 python -m tests.bench.soak [KILLS] [SEED].

An audit with two processes beside the one that leads is started again and again, and one of the three is killed by
SIGKILL at a random moment while questions are asked, until there were so many kills. Each time an audit ends, its
results and its store are compared with those of an audit that was not killed, and the next one begins with an empty
store. Batches are of two questions and sleep a little. Processes are forked, not spawned, so that they start at once;
everything else is what the command does.

Printed: results that differ, questions that were asked although their answer was stored, and batches that were asked
again for each kill.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pfl_audit.cli.main import run
from pfl_audit.cli.process import restrain
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.document import Query
from pfl_audit.documents.synthetic.generator import make_corpus
from pfl_audit.files import sha256_json
from pfl_audit.models import processes
from pfl_audit.models.protocol import DocumentModel, Response
from pfl_audit.models.vt5.model import Vt5Responder
from pfl_audit.progress import Silent
from pfl_audit.version import __version__
from tests.conftest import RECIPE, checkpoints

TIMES = ("started", "seconds", "resumed", "command")
SALT = "0" * 32
SLEEP = 0.05
PAUSE = 0.5
"""Seconds between kills, at most, beside the wait for the next question."""


def main(kills: int, seed: int) -> None:
    """Kill, and print what it cost."""
    restrain()
    rng, began = random.Random(seed), time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        given = drawn(place)
        log = place / "log"
        slow_down(log)
        audit(place / "whole", given)
        toll = Toll(log, results(place / "whole"), len(asked(log)))
        while toll.kills < kills:
            out = toll.begin(place)
            while not (out / "results.json").exists():
                leader, before = start(out, given), toll.kills
                while toll.kills < kills:
                    if ended(leader, log):
                        leader = 0
                        break
                    time.sleep(rng.uniform(0, PAUSE))
                    victim = rng.choice([leader, *children(leader)])
                    toll.kill(victim, "the audit" if victim == leader else "a process")
                    if victim == leader:
                        break
                if leader:
                    os.waitpid(leader, 0)
                toll.require_results(out, before)
            toll.end(out)
    print(f"{toll.line()} in {time.monotonic() - began:.0f} s")


@dataclass
class Toll:
    """What kills cost, over several audits.

    Attributes:
        log: What was asked and stored of the present audit.
        whole: Results of an audit that was not killed.
        batches: Batches that it asked.
    """

    log: Path
    whole: dict[str, Any]
    batches: int
    killed: Counter[str] = field(default_factory=Counter)
    audits: int = 0
    lost: int = 0
    again: int = 0
    differ: int = 0

    @property
    def kills(self) -> int:
        """Number of kills."""
        return self.killed.total()

    def begin(self, place: Path) -> Path:
        """Folder of the next audit, whose log is empty."""
        self.audits += 1
        self.log.unlink()
        return place / f"out-{self.audits}"

    def kill(self, process: int, what: str) -> None:
        """Kill a process."""
        os.kill(process, signal.SIGKILL)
        self.killed[what] += 1
        print(f"{self.audits}: {dict(self.killed)}", flush=True)

    def require_results(self, out: Path, kills: int) -> None:
        """Raise RuntimeError if an audit ended without results, and without a kill since there were so many."""
        if self.kills == kills and not (out / "results.json").exists():
            raise RuntimeError("an audit that was not killed ended without results")

    def end(self, out: Path) -> None:
        """Count what the kills of an audit cost, and say where its results differ."""
        self.lost += len(asked(self.log)) - self.batches
        self.again += asked_again(self.log)
        if found := list(differences(results(out), self.whole)):
            self.differ += 1
            print(f"results differ at {found[:9]}")

    def line(self) -> str:
        """All of it."""
        of = ", ".join(f"{count} of {what}" for what, count in self.killed.items())
        return (
            f"{self.kills} kills ({of}) in {self.audits} audits of {self.batches} batches: {self.differ} results "
            f"differ, {self.again} stored answers were asked again, {self.lost} batches, "
            f"{self.lost / self.kills:.2f} a kill"
        )


def drawn(place: Path) -> list[str]:
    """Arguments of an audit of two drawn models."""
    make_corpus(RECIPE, place / "corpus", Silent())
    make = checkpoints(place / "corpus", place)
    return ["--model", str(make(0)), "--pretrained", str(make(1)), "--red", str(place / "corpus")]


def ended(leader: int, log: Path) -> bool:
    """Wait until something more is asked; whether the audit has ended before."""
    before = log.stat().st_size if log.exists() else 0
    while not log.exists() or log.stat().st_size == before:
        if os.waitpid(leader, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    return False


def note(log: Path, what: str, keys: list[str]) -> None:
    """Add a line to a log that several processes write."""
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, (json.dumps([what, keys]) + "\n").encode())
    os.close(handle)


def note_asked(log: Path, model: DocumentModel, queries: Sequence[Query]) -> None:
    """Note what a model is asked, by the keys of the store."""
    content = [[__version__, model.fingerprint, one.document.digest, one.question, one.answers[0]] for one in queries]
    note(log, "asked", [sha256_json(one) for one in content])


def small_batches(log: Path) -> None:
    """Batches of two questions, and a log of what is stored."""
    put = ResponseStore.put

    def kept(self: ResponseStore, responses: Any) -> None:
        put(self, responses)
        note(log, "stored", list(responses))

    changed: Any = Vt5Responder
    changed.batch_size = lambda self, cost: 2
    stored: Any = ResponseStore
    stored.put = kept


def slow_down(log: Path) -> None:
    """Small batches that sleep, and a log of what is asked and what is stored."""
    small_batches(log)
    respond = Vt5Responder.respond

    def slowly(self: Vt5Responder, queries: Sequence[Query]) -> list[Response]:
        note_asked(log, cast("DocumentModel", self), queries)
        time.sleep(SLEEP)
        return respond(self, queries)

    changed: Any = Vt5Responder
    changed.respond = slowly
    forked: Any = processes
    forked.get_context = lambda how: multiprocessing.get_context("fork")


def start(out: Path, given: list[str]) -> int:
    """Start the audit as a process of its own."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            audit(out, given)
            code = 0
        finally:
            os._exit(code)
    return child


def audit(out: Path, given: Sequence[str], how: Sequence[str] = ("--workers", "2")) -> None:
    """Audit into a folder, whose store has the salt that all have."""
    store = out.with_suffix(".sqlite")
    if not store.exists():
        with ResponseStore(store) as made, made.transaction() as database:
            database.execute("UPDATE meta SET value = ? WHERE name = 'salt'", (SALT,))
    named = ("memorization.provider_name", "memorization.generalisation")
    checks = [word for name in named for word in ("--check", name)]
    with contextlib.redirect_stdout(io.StringIO()):
        run(["audit", *given, *checks, *how, "--store", str(store), "--out", str(out), "--quiet"])


def children(process: int) -> list[int]:
    """Processes that another one has started."""
    try:
        found = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return [int(one) for one in found.split()]


def asked(log: Path) -> list[tuple[str, ...]]:
    """Batches that were asked, in order."""
    return [tuple(keys) for what, keys in map(json.loads, log.read_text().splitlines()) if what == "asked"]


def asked_again(log: Path) -> int:
    """Keys that were asked after they were stored."""
    stored, found = set[str](), 0
    for what, keys in map(json.loads, log.read_text().splitlines()):
        if what == "stored":
            stored |= set(keys)
        else:
            found += len(stored & set(keys))
    return found


def results(folder: Path) -> dict[str, Any]:
    """Results without times, and the answers of the store."""
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    for name in TIMES:
        found["provenance"].pop(name)
    with sqlite3.connect(folder.with_suffix(".sqlite")) as database:
        return {"results": found, "rows": database.execute("SELECT * FROM responses ORDER BY key").fetchall()}


def differences(one: object, other: object, place: str = "") -> Iterator[str]:
    """Where two results differ, and how."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{place}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{place}[{number}]")
    elif one != other:
        yield f"{place}: {one!r:.200} against {other!r:.200}"


if __name__ == "__main__":
    main(*map(int, [*sys.argv[1:], "100", "0"][:2] if len(sys.argv) != 2 else [sys.argv[1], "0"]))

"""Asks an endpoint many questions in a process that is killed: what a test of resuming and its benchmark share.

``python -m tests.models.endpoint.asking CORPUS URL STORE COUNT OUT KEY=VALUE...`` asks COUNT questions and writes what
came of them to OUT.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def main() -> None:
    """Ask, and write answers, counts and what was said."""
    from pfl_audit.attacks.questions.endpoint import open_endpoint
    from pfl_audit.attacks.questions.engine import QueryEngine
    from pfl_audit.attacks.questions.inputs import EndpointInputs
    from pfl_audit.core.store import ResponseStore
    from pfl_audit.documents.readers import open_corpus
    from tests.models.endpoint.said import Heard

    corpus, url, store, count, out, *more = sys.argv[1:]
    red, heard = open_corpus(Path(corpus), "red"), Heard()
    given = [red.queries[at % len(red.queries)] for at in range(int(count))]
    queries = [
        replace(query, id=f"{query.id}/{at}", question=f"{query.question} ({at})") for at, query in enumerate(given)
    ]
    inputs = EndpointInputs.model_validate({"endpoint": url, "yes": True, **dict(one.split("=", 1) for one in more)})
    with ResponseStore(Path(store)) as kept:
        engine = QueryEngine(open_endpoint(inputs, red, int(count), kept, heard), kept, heard)
        answers = engine.ask(queries, "questions")
        found = {
            "answers": {name: response.answer for name, response in sorted(answers.responses.items())},
            "problems": len(answers.problems),
            "asked": engine.asked,
            "reused": engine.reused,
            "said": heard.lines,
            **engine.model.work(),  # type: ignore[attr-defined]
        }
    Path(out).write_text(json.dumps(found))


@dataclass(frozen=True)
class Setting:
    """How to ask: the arguments of this module, and the log of the server."""

    corpus: Path
    url: str
    count: int
    log: Path
    inputs: Sequence[str]

    def start(self, store: Path, out: Path) -> subprocess.Popen[bytes]:
        """Start a process that asks."""
        parts = (self.corpus, self.url, store, self.count, out, *self.inputs)
        command = [sys.executable, "-m", "tests.models.endpoint.asking", *map(str, parts)]
        return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


@dataclass(frozen=True)
class Killed:
    """What came of asking in several processes that were killed, and a last one that was not.

    Attributes:
        found: What the last process wrote.
        stored: Answers in the store after each kill.
        again: Questions that were answered by the server more than once, with how many times more, a process.
        beyond: Questions that later processes asked beyond those that were not in the store.
    """

    found: dict[str, Any]
    stored: list[int]
    again: list[int]
    beyond: int


def ask_and_kill(
    setting: Setting, folder: Path, moments: Sequence[int], watch: Callable[[int, int], None] = lambda *_: None
) -> Killed:
    """Ask, killing the process when the store holds certain numbers of answers, and go on each time.

    Args:
        moments: Numbers of stored answers at which the process is killed.
        watch: Called again and again with the number of the process, from 0, and the answers in the store.
    """
    store, out = folder / "store.sqlite", folder / "out.json"
    stored: list[int] = []
    starts: list[int] = []
    for number, moment in enumerate([*moments, None]):
        starts.append(len(_lines(setting.log)))
        process = setting.start(store, out)
        while process.poll() is None and (moment is None or in_store(store) < moment):
            watch(number, in_store(store))
            time.sleep(0.002)
        if moment is None:
            if process.wait() != 0:
                raise RuntimeError("the last process failed")
            break
        if process.poll() is not None:
            raise RuntimeError("a process ended before it was killed")
        process.send_signal(signal.SIGKILL)
        process.wait()
        stored.append(in_store(store))
        time.sleep(0.5)  # what is in flight is logged
    found: dict[str, Any] = json.loads(out.read_text())
    return Killed(found, stored, *_repeats(setting.log, starts, setting.count, stored))


def _repeats(log: Path, starts: Sequence[int], count: int, stored: Sequence[int]) -> tuple[list[int], int]:
    lines = _lines(log)
    parts = [lines[begin:end] for begin, end in zip(starts, [*starts[1:], None], strict=True)]
    before: Counter[str] = Counter()
    again = []
    for part in parts:
        answered = Counter(line.split()[1] for line in part if line.startswith("answered"))
        again.append(sum(min(number, before[name]) for name, number in answered.items()))
        before += answered
    # A process asks what was not in the store at its start, and nothing else.
    asked = [len({line.split()[1] for line in part if line.startswith("asked")}) for part in parts]
    late = [max(0, number - (count - kept)) for number, kept in zip(asked[1:], stored, strict=True)]
    return again[1:], sum(late)


def in_store(store: Path) -> int:
    """Number of answers in a store that another process writes."""
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
            return int(database.execute("SELECT count(*) FROM responses").fetchone()[0])
    except sqlite3.Error:
        return 0


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def tokens_of(log: Path) -> int:
    """Tokens of all answers in a log."""
    return sum(int(line.split()[2]) for line in _lines(log) if line.startswith("answered"))


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start_server(port: int, log: Path, upstream: str | None = None) -> subprocess.Popen[bytes]:
    """Start ``tests.models.endpoint.server`` and wait until it listens."""
    parts = [str(port), str(log), *([upstream] if upstream else [])]
    command = [sys.executable, "-m", "tests.models.endpoint.server", *parts]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    wait_for(f"http://127.0.0.1:{port}/", process)
    return process


def wait_for(url: str, process: subprocess.Popen[bytes], seconds: float = 90) -> None:
    """Wait until a server answers anything."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=2).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the server does not answer")


if __name__ == "__main__":
    main()

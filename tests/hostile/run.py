"""Runs a case, and says what is wrong with how it ended."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.helpers import helpers
from tests.hostile.case import CPU_SECONDS, MEMORY, Case

_ROOT = Path(__file__).parents[2]
_HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Memory in pages of 2 MiB, where the system has them: a fork copies half of the page tables."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        code: Exit code; negative for a signal.
        late: Whether it had to be ended by the clock.
        cpu: Seconds, of its children too.
        wall: Seconds.
        memory: Largest resident size in bytes.
        out: What it printed on stdout.
        err: What it printed on stderr.
    """

    code: int
    late: bool
    cpu: float
    wall: float
    memory: int
    out: str
    err: str


class Runner(Protocol):
    """Run the command line in a folder."""

    def __call__(self, arguments: list[str], folder: Path) -> Outcome:
        """Run ``pfl-audit`` with ``arguments`` in ``folder`` under the limits."""
        ...


class Zygote:
    """Runs commands in forks of one interpreter that has everything imported, many in each: milliseconds a case."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.server"], cwd=_ROOT, text=True, env={**os.environ, **_HUGE_PAGES},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        helpers.add(self._server.pid)

    def __call__(self, arguments: list[str], folder: Path) -> Outcome:
        """Run a command."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps({"arguments": arguments, "folder": str(folder)}) + "\n")
        self._server.stdin.flush()
        return Outcome(**json.loads(self._server.stdout.readline()), **_printed(folder))

    def close(self) -> None:
        """End the server."""
        self._server.kill()
        self._server.communicate()
        helpers.discard(self._server.pid)


class Program:
    """Runs an installed ``pfl-audit``, such as one of an earlier release, as a process of its own.

    Args:
        path: Of the program.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, arguments: list[str], folder: Path) -> Outcome:
        """Run a command; the interpreter's own start counts as well."""

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS + 10, CPU_SECONDS + 11))
            most = MEMORY + (4 << 30)  # libraries map more than they use
            resource.setrlimit(resource.RLIMIT_AS, (most, most))

        began = time.monotonic()
        late = False
        with Path(f"{folder}.stdout").open("wb") as out, Path(f"{folder}.stderr").open("wb") as err:
            child = subprocess.Popen(
                [self._path, *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                preexec_fn=limit,  # noqa: PLW1509
            )  # fmt: skip
            while True:
                done, status, usage = os.wait4(child.pid, os.WNOHANG)
                if done:
                    break
                if time.monotonic() - began > 90:
                    late = True
                    child.kill()
                time.sleep(0.01)
        return Outcome(
            os.waitstatus_to_exitcode(status), late, usage.ru_utime + usage.ru_stime, time.monotonic() - began,
            usage.ru_maxrss * 1024, **_printed(folder),
        )  # fmt: skip


def faults(case: Case, outcome: Outcome, folder: Path) -> list[str]:
    """What is wrong with how a case ended; empty where nothing is."""
    line = outcome.err.strip().splitlines()[-1] if outcome.err.strip() else ""
    found = []
    if outcome.late:
        found.append("it hung")
    elif outcome.code < 0:
        found.append(f"it ended by signal {-outcome.code}")
    elif outcome.code not in case.codes:
        found.append(f"it ended with {outcome.code}, not {case.codes}")
    if outcome.cpu > CPU_SECONDS:
        found.append(f"it took {outcome.cpu:.0f} s of CPU")
    own = ("internal error", "out of memory", "Traceback")
    forbidden = (*own, "SystemError:", "Exception ignored", "panicked at", "Warning:")  # or a library's
    found += [f"it said '{text}'" for text in forbidden if text in outcome.err]
    if outcome.code in (2, 4) and outcome.err.count("pfl-audit: ") != 1:
        found.append("its failure is not one line")
    found += [f"the line does not name '{text}'" for text in case.says if text not in line]
    left, pages = _left(folder)
    found += [f"it gave '{text[:60]}' away" for text in case.silent if text in outcome.out + outcome.err + left + pages]
    if "\x1b" in outcome.out + outcome.err:
        found.append("it let the input rule the terminal")
    if "<script>alert" in pages:
        found.append("it let the input put a script into a page")
    found += [f"it made '{name}'" for name in case.absent if os.path.lexists(folder / name)]
    return found


def _left(folder: Path) -> tuple[str, str]:
    """The content of the results.json and of the pages that a command left; "given" holds the case's own results."""
    found = [Path(place) / name for place, _, names in os.walk(folder) for name in names]
    results = [path for path in found if path.name == "results.json" and folder / "given" not in path.parents]
    pages = [path for path in found if path.suffix == ".html"]
    texts = [
        "".join(path.read_text(errors="replace") for path in paths if path.is_file()) for paths in (results, pages)
    ]
    return texts[0], texts[1]


def _printed(folder: Path) -> dict[str, str]:
    return {
        name: Path(f"{folder}.{file}").read_text(errors="replace")
        for name, file in (("out", "stdout"), ("err", "stderr"))
    }

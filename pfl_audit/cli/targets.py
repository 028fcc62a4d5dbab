"""Several audits in one file: ``[[targets]]``, each with keys of its own over those of the file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from pfl_audit.errors import EXIT_ERROR, EXIT_INTERRUPTED, UsageError

TARGETS: Final = "targets"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST = 1000
_WORST: Final = (0, 3, 1, 2, 4)
"""Exit codes from the best to the worst: what could not be audited, then findings, then errors."""
_CHILD = "import sys; from pfl_audit.child_process import follow; follow(int(sys.argv.pop(1))); \
sys.argv[0] = 'pfl-audit'; from pfl_audit.cli.main import main; main()"


def targets_of(path: Path, table: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The targets of a file by name, each with what it states itself.

    Args:
        table: Content of the file.

    Raises:
        UsageError: They are no tables, a name is missing, unfit for a folder or there twice, or one sets ``out``.
    """
    given = table.get(TARGETS, [])
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise UsageError(f"{path}: '{TARGETS}' must be tables", f"Write [[{TARGETS}]] before each")
    if len(given) > _MOST:
        raise UsageError(f"{path} has {len(given)} targets, more than {_MOST}", "Write several files")
    found: dict[str, dict[str, Any]] = {}
    for number, one in enumerate(given, 1):
        name = one.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            remedy = "Take letters, digits, '.', '_' and '-': it is the name of a folder"
            raise UsageError(f"{path}: target {number} has no usable name", remedy)
        if name in found:
            raise UsageError(f"{path}: two targets have the name {name}", "Name them differently")
        if "out" in one:
            raise UsageError(f"{path}: the target {name} sets 'out'", "Set it once: a target gets a folder in it")
        found[name] = {key: value for key, value in one.items() if key != "name"}
    return found


def with_target(path: Path, table: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """The content of a file for one of its targets.

    Raises:
        UsageError: As of ``targets_of``, there is no such target, or there are some and none is chosen.
    """
    targets = targets_of(path, table)
    own = {key: value for key, value in table.items() if key != TARGETS}
    if name is None:
        if targets:
            raise UsageError(
                f"{path} has {len(targets)} targets", "Run them all with 'pfl-audit run', or one with --target NAME"
            )
        return own
    if name not in targets:
        known = ", ".join(targets) or "none"
        raise UsageError(f"{path} has no target {name:.100}; it has {known:.300}", "Choose one of them")
    return own | targets[name]


@dataclass(frozen=True)
class Ended:
    """How the audit of a target ended.

    Attributes:
        code: Exit code.
        told: Standard output, where it was kept; else empty.
    """

    code: int
    told: str = ""


def audit_here(name: str, arguments: Sequence[str]) -> Ended:
    """Audit a target in this process."""
    from pfl_audit.cli.main import run

    print(f"target {name}", file=sys.stderr, flush=True)
    return Ended(run(list(arguments)))


class Children:
    """Audits of targets in processes of their own, which end with this one."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def audit(self, audits: Mapping[str, Sequence[str]], *, show: bool) -> dict[str, Ended]:
        """Audit all targets, some of them at the same time.

        Args:
            audits: Target to the arguments of ``pfl-audit``.
            show: Whether what an audit prints is shown when it has ended.
        """

        def one(name: str) -> Ended:
            ended = self._audit(name, audits[name])
            if show:
                print(f"target {name}\n{ended.told}", flush=True)
            return ended

        with ThreadPoolExecutor(self._at_once) as pool:
            try:
                return dict(zip(audits, pool.map(one, audits), strict=True))
            except BaseException:
                self._stop()
                raise

    def _audit(self, name: str, arguments: Sequence[str]) -> Ended:
        threads = max(1, (os.cpu_count() or 1) // self._at_once)
        environment = {"OMP_NUM_THREADS": str(threads)} | os.environ
        with self._lock:
            if self._stopped:
                return Ended(EXIT_INTERRUPTED)
            # -P: a module in the untrusted working folder must not shadow a real one.
            child = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-P", "-c", _CHILD, str(os.getpid()), *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            self._running.add(child)
        progress = threading.Thread(target=_pass_on, args=(name, child.stderr))
        progress.start()
        told = child.stdout.read() if child.stdout is not None else ""
        child.wait()
        progress.join()
        with self._lock:
            self._running.discard(child)
        return Ended(child.returncode if child.returncode in (*_WORST, EXIT_INTERRUPTED) else EXIT_ERROR, told)

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            for child in self._running:
                child.kill()


def _pass_on(name: str, lines: IO[str] | None) -> None:
    """Print the progress and errors of an audit with its target in front."""
    for line in lines or ():
        print(f"{name}: {line}", end="", file=sys.stderr, flush=True)


def worst(codes: Sequence[int]) -> int:
    """The exit code of several audits."""
    return EXIT_INTERRUPTED if EXIT_INTERRUPTED in codes else max(codes, key=_WORST.index, default=0)


def parsed(text: str) -> object:
    """What an audit printed as JSON; None where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None

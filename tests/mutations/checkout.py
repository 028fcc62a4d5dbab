"""A copy of the checkout in which rules are broken, so that the checkout itself stays as it is."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from tests.mutations.mutation import Mutation

ROOT: Final = Path(__file__).parents[2]
_OWN: Final = "tests/house/test_mutations.py"
"""Finds every mutation, since its text is not in the source any more."""
_NO_TESTS: Final = 5
"""Exit code of pytest where a marker leaves no test."""
_FIRST: Final = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)


@dataclass(frozen=True)
class Ran:
    """A run of tests.

    Attributes:
        failed: First test that failed, without parameters; None where all passed.
        seconds: Processor time, with that of the processes that the tests have started and waited for.
    """

    failed: str | None
    seconds: float


class Checkout:
    """Copy of the tracked files and of those that git does not ignore.

    Args:
        folder: Empty folder of the copy.
        marker: Expression of pytest's ``-m``, or nothing.
        limit: Seconds after which a test fails.
    """

    def __init__(self, folder: Path, marker: str, limit: float) -> None:
        self._folder, self._marker, self._limit = folder, marker, limit
        self._passing: set[str] = set()
        command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
        names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if os.path.lexists(ROOT / name):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
        for arguments in (("init", "-q"), ("add", "-A")):  # a test asks git for the files
            subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)

    def require_passing(self, files: Sequence[str]) -> None:
        """Check that tests pass while no rule is broken; those that passed before are not run again.

        Raises:
            SystemExit: A test fails.
        """
        due = [file for file in files if file not in self._passing]
        if due and (failed := self.run(due).failed):
            raise SystemExit(f"{failed} fails without any mutation")
        self._passing.update(due)

    @contextmanager
    def broken(self, mutations: Sequence[Mutation]) -> Iterator[None]:
        """Break some rules at once, and restore the files.

        Raises:
            SystemExit: A text does not occur once.
        """
        with ExitStack() as stack:
            for mutation in mutations:
                path = self._folder / mutation.file
                text = path.read_text(encoding="utf-8")
                if text.count(mutation.before) != 1:
                    raise SystemExit(f"{mutation.file} holds {text.count(mutation.before)} times: {mutation.before}")
                stack.callback(_write, path, text)
                _write(path, text.replace(mutation.before, mutation.after))
            yield

    def confirmed(self, files: Sequence[str]) -> Ran:
        """Run tests up to the first that fails; that one is run again, and counts where it fails twice."""
        ran = self.run(files)
        again = self.run([ran.failed]) if ran.failed else ran
        return Ran(again.failed, ran.seconds)

    def run(self, files: Sequence[str]) -> Ran:
        """Run tests up to the first that fails.

        Raises:
            SystemExit: They could not be run, such as where a mutation makes an import fail.
        """
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"--timeout={self._limit}"]
        command += [f"--ignore={_OWN}", *(["-m", self._marker] if self._marker else []), *files]
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(self._folder)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        began = _spent()
        child = subprocess.Popen(
            command, cwd=self._folder, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            told, _ = child.communicate()
        finally:  # with what the tests have started
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        failed = _FIRST.search(told)
        if child.returncode not in (0, 1, _NO_TESTS) or (child.returncode == 1 and failed is None):
            raise SystemExit(told[-4000:])
        return Ran(failed[1] if failed and child.returncode == 1 else None, _spent() - began)


def _spent() -> float:
    """Processor seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write(path: Path, text: str) -> None:
    """Write a source, without the bytecode of another text of the same second and length."""
    path.write_text(text, encoding="utf-8")
    Path(cache_from_source(str(path))).unlink(missing_ok=True)

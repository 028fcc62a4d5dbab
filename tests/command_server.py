"""Runs commands in forks of one interpreter that has the libraries imported: an import takes longer than most commands.

Started by ``CommandServer``. Each line of stdin is a command as JSON {"arguments", "cwd", "out", "err", "forks"}; two
lines of stdout answer it: the id of its process, and its exit code, negative for a signal. Another
fork takes over what ``program`` hands over.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import NoReturn

from tests.handover import listen, listens, next_program, write_program
from tests.helpers import helpers

ROOT = Path(__file__).parents[1]
_LIBRARIES = (
    "sklearn.ensemble", "matplotlib.figure", "matplotlib.backends.backend_svg", "pfl_audit.training.run",
    "pfl_audit.models.vt5.model", "pfl_audit.models.donut.model", "pfl_audit.models.encoders.model",
    "pfl_audit.attacks.membership.run", "pfl_audit.attacks.inversion.run", "pfl_audit.reports.html",
)  # fmt: skip

_PR_SET_PDEATHSIG = 1


class CommandServer:
    """Starts commands as processes of their own.

    Args:
        folder: Takes what commands print.
        paths: Folders on the path of every command, before the installed packages.
    """

    def __init__(self, folder: Path, paths: Iterable[Path] = ()) -> None:
        self._out, self._err, self._name = folder / "stdout", folder / "stderr", f"pfl-audit-{secrets.token_hex(8)}"
        self._program = folder / "pfl-audit"
        path = os.pathsep.join(filter(None, [*map(str, paths), os.environ.get("PYTHONPATH"), str(ROOT)]))
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.command_server", self._name], text=True,
            env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        helpers.add(self._server.pid)

    def start(self, *arguments: object, cwd: Path | None = None, forks: bool = False) -> int:
        """Start ``pfl-audit`` with these arguments, and return the id of its process; ``wait`` must follow.

        Args:
            forks: Whether its workers are forks of it, without imports of their own, and not as a user has them.
        """
        assert self._server.stdin
        files = {"cwd": str(cwd or Path.cwd()), "out": str(self._out), "err": str(self._err), "forks": forks}
        self._server.stdin.write(json.dumps({"arguments": [*map(str, arguments)], **files}) + "\n")
        self._server.stdin.flush()
        return self._answer()

    def wait(self) -> int:
        """Wait for the command that was started, and return its exit code."""
        return self._answer()

    def run(self, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        self.start(*arguments, cwd=cwd)
        code = self.wait()
        return subprocess.CompletedProcess([*map(str, arguments)], code, self._out.read_text(), self._err.read_text())

    @property
    def program(self) -> Path:
        """A program ``pfl-audit`` that others may start, several at once."""
        if not self._program.exists():
            while not listens(self._name):
                assert self._server.poll() is None
                time.sleep(0.01)
            write_program(self._program, self._name)
        return self._program

    def close(self) -> None:
        """End the server."""
        self._server.kill()
        self._server.communicate()
        helpers.discard(self._server.pid)

    def _answer(self) -> int:
        assert self._server.stdout
        return int(self._server.stdout.readline())


def _become(arguments: list[str], cwd: str, out: str, err: str, *, forks: bool) -> None:
    os.chdir(cwd)
    if forks:
        import_module("pfl_audit.models.processes").__dict__["get_context"] = lambda how: get_context("fork")
    for number, name in ((1, out), (2, err)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _run(arguments)


def _run(arguments: list[str]) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # the tests may run in the background, where signals are ignored
    sys.argv = ["pfl-audit", *arguments]
    from pfl_audit.cli.main import main

    code: object = 99
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 98)


def _fork(arguments: list[str], cwd: str, out: str, err: str, *, forks: bool) -> int:
    child = os.fork()
    if child == 0:
        try:
            _become(arguments, cwd, out, err, forks=forks)
        finally:
            os._exit(99)
    return child


def _serve_programs(server: socket.socket) -> None:
    """In a fork, which ends with this process."""
    if os.fork():
        server.close()
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    gc.freeze()  # a collection in a fork would copy the objects of every library
    _run(next_program(server)[1:])


def _serve(name: str) -> None:
    from pfl_audit.cli.process import restrain

    server = listen(name)  # what asks during the imports waits
    restrain()
    for library in _LIBRARIES:
        import_module(library)
    _serve_programs(server)
    for line in sys.stdin:
        child = _fork(**json.loads(line))
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])

"""A command as several processes with the variables of a launcher: forks, without a start of their own each."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from pfl_audit.cli.main import main


class Started:
    """Processes of one command.

    Args:
        folder: Takes what each prints.
        prepare: Called in each process with its number, before the command.
    """

    def __init__(
        self, arguments: list[str], size: int, folder: Path, prepare: Callable[[int], None] = lambda _: None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        sys.stdout.flush()
        sys.stderr.flush()
        self.processes = [self._fork(arguments, rank, size, port, prepare) for rank in range(size)]

    def _fork(self, arguments: list[str], rank: int, size: int, port: int, prepare: Callable[[int], None]) -> int:
        child = os.fork()
        if child:
            return child
        code: object = 99
        try:
            os.environ |= {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            }  # fmt: skip
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number in (1, 2):
                os.dup2(os.open(self._folder / f"{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
            sys.stdout, sys.stderr = (os.fdopen(number, "w") for number in (1, 2))
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            torch.set_num_threads(1)  # the threads of the first process are not in its fork
            sys.argv = ["pfl-audit", *arguments]
            prepare(rank)
            main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else 98)

    def kill_once_there(self, rank: int, file: Path) -> None:
        """SIGKILL a process once there is a file."""
        deadline = time.monotonic() + 60
        while not file.is_file() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(self.processes[rank], signal.SIGKILL)
        assert file.is_file()

    def codes(self) -> list[int]:
        """Wait for all, and return their exit codes, negative for a signal."""
        return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in self.processes]

    def printed(self, rank: int) -> str:
        """All that a process has printed."""
        return (self._folder / f"{rank}").read_text()

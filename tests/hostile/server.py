"""Runs commands in forks of an interpreter that has everything imported, and measures them.

Started by ``run.Zygote``. Reads a JSON line {"arguments", "folder"} from stdin, answers with a JSON line. A fork and
the pages that it copies cost more than most cases, so a fork runs one command after another until it dies, is ended by
the clock, or says that it is no longer as it was (``worker.serve``).
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any

from tests.hostile.case import CPU_SECONDS
from tests.hostile.worker import serve

_WALL_SECONDS = 90
_PICKLE_SECONDS = 3.0
"""CPU time of a pickle, in place of 10 s: one that would never end takes all of it."""
_PAGE_MEMORY = 1 << 30
"""Of the child that draws pages, in place of 3 GiB: a page of 20 million boxes takes all of it."""


def _import_everything() -> None:
    import pkgutil
    from importlib import import_module

    import pfl_audit
    from pfl_audit.cli.process import restrain

    restrain()

    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import torch

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(pfl_audit.__path__, "pfl_audit."):
        if ".flower" not in module.name and not module.name.endswith("fixtures.build"):
            import_module(module.name)
            _find_extensions(vars(sys.modules[module.name]))
    from pfl_audit.cli.main import click_command

    click_command()  # which every fork would build anew
    npy = sys.modules["pfl_audit.documents.npy"]
    assert CPU_SECONDS > npy._SECONDS
    npy._SECONDS = _PICKLE_SECONDS
    pages = sys.modules["pfl_audit.importing.pages"]
    assert pages.PAGE_MEMORY > _PAGE_MEMORY
    pages.PAGE_MEMORY = _PAGE_MEMORY


def _find_extensions(names: dict[str, Any]) -> None:
    """Read the entry points of a module's registries, which every fork would read anew."""
    from pfl_audit.registry import Registry

    for value in list(names.values()):
        if isinstance(value, Registry):
            value.installed()


class Worker:
    """A fork that runs commands one after another; what happens to it, happens to the command under way."""

    def __init__(self) -> None:
        self._pipe, there = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._pipe.close()
            serve(there)
        there.close()
        self._end = os.pidfd_open(self._pid)
        self._used = 0.0
        self.ended = False

    def run(self, arguments: list[str], folder: str) -> dict[str, Any]:
        """Run a command under the limits; afterwards the worker may have ended."""
        began = time.monotonic()
        self._pipe.send((arguments, folder))
        ready = wait([self._pipe, self._end], _WALL_SECONDS)
        found: dict[str, Any] = {}
        with suppress(EOFError, ConnectionError):
            found, last = self._pipe.recv() if self._pipe in ready else ({}, True)
        code, cpu, memory = self._close(kill=not ready) if not found or last else (0, 0.0, 0)
        self._used += found.get("cpu", 0.0)
        own = {"code": code, "cpu": cpu - self._used, "memory": memory}
        return own | found | {"late": not ready, "wall": time.monotonic() - began}

    def _close(self, *, kill: bool) -> tuple[int, float, int]:
        """End the worker, and every process that its commands left."""
        self._pipe.close()
        if not kill:
            wait([self._end], 1)
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        _, status, usage = os.wait4(self._pid, 0)
        os.close(self._end)
        self.ended = True
        return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main() -> None:
    """Answer until stdin ends."""
    _import_everything()
    gc.collect()
    gc.freeze()  # a collection in a fork would walk, and so copy, the objects of every library
    worker = Worker()
    for line in sys.stdin:
        worker = Worker() if worker.ended else worker
        print(json.dumps(worker.run(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()

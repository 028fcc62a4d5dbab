"""Runs commands one after another in one process, each under limits of its own."""

from __future__ import annotations

import os
import resource
import sys
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from tests.hostile.case import CPU_SECONDS, MEMORY

_MOST_COMMANDS = 100
_HEAVY_SECONDS, _HEAVY_BYTES = 1.0, MEMORY // 16
"""Of CPU and of address space: a process that took more than this is not handed another command."""


def serve(pipe: Connection) -> NoReturn:
    """Answer (arguments, folder) with how the command ended, and whether this process ends.

    It ends after a command that raised an exception, took much time or memory, or left a thread or a process behind.
    """
    os.setpgid(0, 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    before = _state()
    most = before["bytes"] + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    code = 0
    with suppress(EOFError):
        for count in range(1, _MOST_COMMANDS + 1):
            arguments, folder = pipe.recv()
            began = _cpu()
            _forget_memory()
            _limit_cpu()
            code, whole = _run(arguments, folder)
            cpu = _cpu() - began
            now = _state()
            last = (
                not whole
                or count == _MOST_COMMANDS
                or cpu > _HEAVY_SECONDS
                or now["bytes"] > before["bytes"] + _HEAVY_BYTES
                or now["threads"] > before["threads"]
                or _has_children()
            )
            pipe.send(({"code": code, "cpu": cpu, "memory": _largest_memory()}, last))
            if last:
                break
    os._exit(0)


def _run(arguments: list[str], folder: str) -> tuple[int, bool]:
    """The exit code of a command, and whether it ended as a command should."""
    os.chdir(folder)
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(f"{folder}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["pfl-audit", *arguments]
    from pfl_audit.cli.main import run

    environment = dict(os.environ)
    try:
        with warnings.catch_warnings():  # a warning is shown again by the next command
            return run(arguments), True
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 98, True
    except BaseException:
        return 99, False
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if os.environ != environment:
            os.environ.clear()
            os.environ.update(environment)


def _limit_cpu() -> None:
    """Give the next command its seconds; a command cannot have those of the next."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + CPU_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (most, int(_MOST_COMMANDS * _HEAVY_SECONDS) + CPU_SECONDS + 1))


def _cpu() -> float:
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def _state() -> dict[str, int]:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return {"bytes": size, "threads": len(list(Path("/proc/self/task").iterdir()))}


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _forget_memory() -> None:
    """Let the largest resident size be measured from here."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _largest_memory() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

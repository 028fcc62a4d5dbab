"""Child process of ``pfl_audit.sandbox``: sets the limits, locks itself, imports the function, executes calls."""

from __future__ import annotations

import mimetypes
import os
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from pfl_audit import sandbox_lock
from pfl_audit.sandbox import LOCKS, RefusedError
from pfl_audit.sandbox_message import MessageError, receive, send

_MOST_FILES = 4
_SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/fonts", "/usr/share/fonts",
    "/usr/share/X11/fonts", "/usr/local/share/fonts", "/dev/null", "/dev/urandom", "/etc/localtime", "/proc/cpuinfo",
    "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage",
)  # fmt: skip
"""Shared libraries, fonts, which pages of a PDF without its own are drawn in, and what libraries ask of the machine."""


def serve(number: int) -> None:
    """Execute calls until the channel is closed."""
    for interrupt in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(interrupt, signal.SIG_IGN)  # handled by the parent
    with socket.socket(fileno=number) as channel:
        target, memory, readable = receive(channel)
        _limit(memory)
        # Before the import: Landlock does not hold a thread that a library has started.
        lacks = _lock([*_interpreter(), *map(Path, _SYSTEM), *(Path(os.fsdecode(path)) for path in readable)])
        module, _, name = target.partition(":")
        function = getattr(import_module(module), name)
        send(channel, ["done", lacks])
        while True:
            try:
                question = receive(channel, most_files=_MOST_FILES)
            except EOFError:
                return
            _answer(channel, function, question)


def _answer(channel: socket.socket, function: Callable[..., Any], arguments: Any) -> None:
    try:
        send(channel, ["done", function(*arguments)])
    except (RefusedError, MessageError) as error:
        send(channel, ["refused", str(error)])
    except MemoryError:
        send(channel, ["memory", ""])
    except RecursionError:
        send(channel, ["refused", "it is nested too deeply"])
    except Exception as error:  # untrusted input makes libraries raise any exception
        send(channel, ["ended", type(error).__name__])


def _limit(memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = memory if most == resource.RLIM_INFINITY else min(memory, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    mimetypes.knownfiles.clear()  # tables of the system, which it opens wherever they are there
    tempfile.tempdir = os.sep  # no file can be written anywhere, and libraries ask for the name of the folder


def _lock(readable: Iterable[Path]) -> list[str]:
    """Lock this process, and return the parts of the lock that the kernel does not have."""
    lacks = []
    for name, lock in zip(LOCKS, (lambda: sandbox_lock.landlock(readable), sandbox_lock.seccomp), strict=True):
        try:
            lock()
        except sandbox_lock.LockError:
            lacks.append(name)
    os.chdir(os.sep)
    return lacks


def _interpreter() -> list[Path]:
    """Folders of the interpreter, its packages, and this one."""
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    found = [*sys.path, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *libraries]
    return [Path(__file__).parent, *(Path(path) for path in found if path)]


if __name__ == "__main__":
    serve(int(sys.argv[1]))

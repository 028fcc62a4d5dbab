"""The child's side of ``pfl_audit.confined``: sets the limits, imports the function, answers calls."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from pfl_audit.confined import RefusedError, plain


def _answer(function: Callable[..., Any], arguments: Any) -> bytes:
    try:
        return pickle.dumps(("done", function(*arguments)), pickle.HIGHEST_PROTOCOL)
    except RefusedError as error:
        return pickle.dumps(("refused", str(error)))
    except MemoryError:
        return pickle.dumps(("memory", ""))
    except RecursionError:
        return pickle.dumps(("refused", "it is nested too deeply"))
    except Exception as error:  # the input is hostile, and libraries raise anything
        return pickle.dumps(("ended", type(error).__name__))


def _serve(target: str, memory: int, seconds: int, number: int) -> None:
    """The child's side: answer calls until the pipe is closed."""
    for interrupt in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(interrupt, signal.SIG_IGN)  # the parent decides
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    for kind, wanted in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
        _, most = resource.getrlimit(kind)
        limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(kind, (limit, limit))
    module, _, name = target.partition(":")
    function = getattr(import_module(module), name)
    with Connection(number) as pipe:
        while True:
            try:
                question = pipe.recv_bytes()
            except EOFError:
                return
            pipe.send_bytes(_answer(function, plain(question)))


if __name__ == "__main__":
    _serve(sys.argv[1], *(int(part) for part in sys.argv[2:]))

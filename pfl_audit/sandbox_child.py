"""Child process of ``pfl_audit.sandbox``: sets the limits, imports the function, executes calls."""

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

from pfl_audit.sandbox import RefusedError, load_plain_data


def _answer(function: Callable[..., Any], arguments: Any) -> bytes:
    try:
        return pickle.dumps(("done", function(*arguments)), pickle.HIGHEST_PROTOCOL)
    except RefusedError as error:
        return pickle.dumps(("refused", str(error)))
    except MemoryError:
        return pickle.dumps(("memory", ""))
    except RecursionError:
        return pickle.dumps(("refused", "it is nested too deeply"))
    except Exception as error:  # untrusted input makes libraries raise any exception
        return pickle.dumps(("ended", type(error).__name__))


def _serve(target: str, memory: int, seconds: int, number: int) -> None:
    """Execute calls until the pipe is closed."""
    for interrupt in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(interrupt, signal.SIG_IGN)  # handled by the parent
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
            pipe.send_bytes(_answer(function, load_plain_data(question)))


if __name__ == "__main__":
    _serve(sys.argv[1], *(int(part) for part in sys.argv[2:]))

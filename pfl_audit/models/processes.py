"""Processes of this machine that hold models, and how they answer."""

from __future__ import annotations

import logging
import pickle
import sys
import warnings
import weakref
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from pfl_audit.child_process import follow
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.models.call_progress import Advance
from pfl_audit.models.calls import Call, InTurn, M, Opening, Pool, Reply, T
from pfl_audit.models.device import is_out_of_memory
from pfl_audit.models.placement import tokens_found
from pfl_audit.progress import Task
from pfl_audit.version import __version__

FEWER = "fewer --workers"


class Processes(Pool["Process"]):
    """Processes of this machine that hold models.

    They ignore interrupts, which the process that leads handles, and end with it, however it ends.

    Args:
        count: Of processes; torch's threads are divided among them.
    """

    def __init__(self, count: int) -> None:
        super().__init__(_Local(count))
        weakref.finalize(self, _end_all, self.idle)


class _Local:
    """As of Holders."""

    fewer = FEWER
    waits = False
    shares_files = True

    def __init__(self, count: int) -> None:
        self.room = count

    def start(self) -> Process:
        import torch

        return Process(max(1, torch.get_num_threads() // self.room))

    def ready(self, busy: Sequence[Process]) -> Sequence[Process]:
        found = wait([one.connection for one in busy])
        return [one for one in busy if one.connection in found]


class Process:
    """One process, and the connection to it; a Holder."""

    def __init__(self, threads: int) -> None:
        context = get_context("spawn")
        self.connection, there = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(there, threads), daemon=True)
        self._process.start()
        there.close()

    def send(self, opening: Opening[M], call: Call[M, Any]) -> None:
        """As of Holder."""
        try:
            _send(self.connection, (opening, call))
        except OSError:  # it has died, which receive() says
            return
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise AuditError(
                "documents of this format cannot be given to another process", "Use --workers 1"
            ) from error

    def has_started(self) -> bool:
        """As of Holder."""
        return self._process.is_alive()

    def receive(self) -> Reply[Any] | Advance | None:
        """As of Holder."""
        try:
            found: Reply[Any] | Advance = self.connection.recv()
        except (EOFError, OSError):
            return None
        return found

    def end(self) -> None:
        """As of Holder."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def _send(connection: Connection, what: object) -> None:
    """Send by plain pickle; that of multiprocessing moves tensors to shared memory, of which there may be little."""
    connection.send_bytes(pickle.dumps(what, protocol=pickle.HIGHEST_PROTOCOL))


class _Reporter:
    """A task whose owner is the process that leads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def advance(self, amount: int = 1, note: str = "") -> None:
        _send(self._connection, Advance(amount, note))


def _end_all(processes: list[Process]) -> None:
    for process in processes:
        process.end()


def _serve(connection: Connection, threads: int) -> None:
    """Answer calls until the connection closes."""
    follow()
    be_silent()
    import torch

    torch.set_num_threads(threads)
    models: dict[Opening[Any], Any] = {}
    while True:
        try:
            opening, call = connection.recv()
        except (EOFError, OSError):
            return
        except Exception as error:  # a call of code that this process cannot import
            _send(connection, failed(error, FEWER))
        else:
            _send(connection, reply(models, opening, call, FEWER, _Reporter(connection)))


def be_silent() -> None:
    """Show no warning of a library: the process that leads has shown them."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
        logging.getLogger().addHandler(logging.NullHandler())


def reply(
    models: dict[Opening[Any], Any], opening: Opening[M], call: Call[M, T], fewer: str, task: Task | None = None
) -> Reply[T]:
    """Call a model, in the process that holds it.

    Args:
        models: The opened ones; the one that is called is added.
        fewer: As of ``Holders``.
        task: As of ``Calls.each``, of this call.
    """
    try:
        if opening.version != __version__:
            raise AuditError("a machine has another version of pfl-audit", "Install the same one everywhere")
        if opening not in models:
            models[opening] = opening.open()
        ((_, given),) = InTurn(models[opening]).each([call], task)
        if not isinstance(given, UnanswerableError):
            return Reply(given, tokens=tokens_found(models[opening]))
        return Reply(unanswerable=(given.problem, given.remedy, given.reason))
    except UnanswerableError as error:  # of the opening
        return Reply(unanswerable=(error.problem, error.remedy, error.reason))
    except AuditError as error:
        return Reply(failed=(error.problem, error.remedy, type(error).__name__))
    except Exception as error:
        return failed(error, fewer)


def failed(error: Exception, fewer: str) -> Reply[Any]:
    """The reply of an unforeseen error, without its text, which may contain a value."""
    kind = type(error).__name__
    if is_out_of_memory(error):
        return Reply(failed=("out of memory", f"Repeat the command with {fewer}: it goes on", ""))
    return Reply(failed=(f"internal error: {kind}", "Repeat the command with one process, and report it", ""))

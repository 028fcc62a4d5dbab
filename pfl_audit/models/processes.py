"""Calls of a model: in this process one after another, or in several processes at the same time.

Each process opens a checkpoint when it is first asked of it, and keeps it. A process that dies costs the call that it
had; another takes its place. Nothing that a process holds is written: results come back, and the caller keeps them.
"""

from __future__ import annotations

import logging
import sys
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pickle import PicklingError
from typing import Any, Generic, Protocol, TypeVar, cast

from pfl_audit.child_process import follow
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.models.family import Precision
from pfl_audit.models.open import open_model
from pfl_audit.models.protocol import DocumentModel

T = TypeVar("T")
Call = Callable[[DocumentModel], T]
"""What is asked of a model; for another process it must be possible to pickle."""

_DEATHS = 3
"""Processes that one call may cost."""


class Calls(Protocol):
    """What calls one model."""

    def each(self, calls: Sequence[Call[T]]) -> Iterator[tuple[int, T | UnanswerableError]]:
        """The number of each call and what it gave, in any order; where it is taken late, no more are begun."""


class InTurn:
    """Calls of a model of this process, in order."""

    def __init__(self, model: DocumentModel) -> None:
        self._model = model

    def each(self, calls: Sequence[Call[T]]) -> Iterator[tuple[int, T | UnanswerableError]]:
        """As of Calls."""
        for at, call in enumerate(calls):
            try:
                found: T | UnanswerableError = call(self._model)
            except UnanswerableError as error:
                found = error
            yield at, found


@dataclass(frozen=True)
class Opening:
    """How a checkpoint was opened, as of ``open_model``.

    Attributes:
        fingerprint: Of the model that it gave.
    """

    name: str
    device: str
    download: bool
    prompt: str | None
    fingerprint: str
    precision: Precision = "fp32"
    batch_tokens: int | None = None


class Processes:
    """Processes that hold models.

    They ignore interrupts, which the process that leads handles, and end with it, however it ends.

    Args:
        count: Of processes; torch's threads are divided among them.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._idle: list[_Process] = []
        weakref.finalize(self, _end_all, self._idle)

    def calls(self, opening: Opening) -> Calls:
        """Calls of the model that an opening gives."""
        return _Held(self, opening)

    def each(self, opening: Opening, calls: Sequence[Call[T]]) -> Iterator[tuple[int, T | UnanswerableError]]:
        """As of Calls.

        Raises:
            AuditError: A checkpoint changed or cannot be opened again, or a call cost a process three times.
        """
        if not calls:
            return
        waiting, deaths = deque(enumerate(calls)), Counter[int]()
        busy: dict[Connection, tuple[_Process, int]] = {}
        while len(self._idle) < min(self._count, len(calls)):
            self._idle.append(self._started())
        try:
            while waiting or busy:
                while waiting and self._idle:
                    at, call = waiting.popleft()
                    process = self._idle.pop()
                    busy[process.connection] = process, at
                    process.send(opening, call)
                for connection in wait(list(busy)):
                    process, at = busy.pop(cast("Connection", connection))
                    reply: _Reply[T] | None = process.receive()
                    if reply is None:
                        process.end()
                        deaths[at] += 1
                        if deaths[at] == _DEATHS:
                            raise AuditError(
                                f"{_DEATHS} processes were killed over one batch, perhaps for want of memory",
                                "Repeat the command with fewer --workers: it goes on",
                            )
                        waiting.appendleft((at, calls[at]))
                        self._idle.append(self._started())
                        continue
                    self._idle.append(process)
                    yield at, reply.found()
        finally:
            for process, _ in busy.values():  # what it would send belongs to this loop
                process.end()

    def _started(self) -> _Process:
        import torch

        return _Process(max(1, torch.get_num_threads() // self._count))


class _Held:
    """A model that processes hold."""

    def __init__(self, processes: Processes, opening: Opening) -> None:
        self._processes, self._opening = processes, opening

    def each(self, calls: Sequence[Call[T]]) -> Iterator[tuple[int, T | UnanswerableError]]:
        return self._processes.each(self._opening, calls)


@dataclass(frozen=True)
class _Reply(Generic[T]):
    """What a call gave; exceptions as their arguments, since they cannot be pickled.

    Attributes:
        unanswerable: Of an UnanswerableError.
        failed: Of an AuditError.
    """

    given: T | None = None
    unanswerable: tuple[str, str, str] | None = None
    failed: tuple[str, str] | None = None

    def found(self) -> T | UnanswerableError:
        """What the call gave.

        Raises:
            AuditError: It failed.
        """
        if self.failed is not None:
            raise AuditError(*self.failed)
        return UnanswerableError(*self.unanswerable) if self.unanswerable is not None else cast("T", self.given)


class _Process:
    """One process, and the connection to it."""

    def __init__(self, threads: int) -> None:
        context = get_context("spawn")
        self.connection, there = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(there, threads), daemon=True)
        self._process.start()
        there.close()

    def send(self, opening: Opening, call: Call[T]) -> None:
        try:
            self.connection.send((opening, call))
        except OSError:  # it has died, which receive() says
            return
        except (PicklingError, TypeError, AttributeError) as error:
            raise AuditError(
                "documents of this format cannot be given to another process", "Use --workers 1"
            ) from error

    def receive(self) -> _Reply[Any] | None:
        """What it sent; None where it has died."""
        try:
            found: _Reply[Any] = self.connection.recv()
        except (EOFError, OSError):
            return None
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


def _end_all(processes: list[_Process]) -> None:
    for process in processes:
        process.end()


def _serve(connection: Connection, threads: int) -> None:
    """Answer calls until the connection closes."""
    follow()
    if not sys.warnoptions:  # the process that leads has shown them
        warnings.simplefilter("ignore")
        logging.getLogger().addHandler(logging.NullHandler())
    import torch

    torch.set_num_threads(threads)
    models: dict[Opening, DocumentModel] = {}
    while True:
        try:
            opening, call = connection.recv()
        except (EOFError, OSError):
            return
        except Exception as error:  # a call of code that this process cannot import
            connection.send(_failed(error))
        else:
            connection.send(_reply(models, opening, call))


def _reply(models: dict[Opening, DocumentModel], opening: Opening, call: Call[T]) -> _Reply[T]:
    try:
        if opening not in models:
            models[opening] = _opened(opening)
        return _Reply(call(models[opening]))
    except UnanswerableError as error:
        return _Reply(unanswerable=(error.problem, error.remedy, error.reason))
    except AuditError as error:
        return _Reply(failed=(error.problem, error.remedy))
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> _Reply[Any]:
    """What no call foresees, without its text, which may hold a value."""
    kind = type(error).__name__
    if isinstance(error, MemoryError) or kind == "OutOfMemoryError":  # the latter is torch's
        return _Reply(failed=("out of memory", "Repeat the command with fewer --workers: it goes on"))
    return _Reply(failed=(f"internal error: {kind}", "Repeat the command with --workers 1, and report it"))


def _opened(opening: Opening) -> DocumentModel:
    model = open_model(
        opening.name,
        device=opening.device,
        download=opening.download,
        prompt=opening.prompt,
        precision=opening.precision,
        batch_tokens=opening.batch_tokens,
    )
    if model.fingerprint != opening.fingerprint:
        raise AuditError(f"{opening.name} has changed since it was opened", "Repeat the command")
    return model

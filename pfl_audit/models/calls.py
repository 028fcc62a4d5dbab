"""Calls of a model: in this process one after another, or by several that hold it and are free at different times.

One loop hands calls out, whatever holds the models and whatever they are asked: processes of this machine, or actors of
a cluster; questions, searches or fillings. Results come back, and the caller keeps them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from pfl_audit.errors import (
    AuditError,
    NotAuditableError,
    StorageError,
    UnanswerableError,
    UsageError,
    WorkersError,
)
from pfl_audit.models.call_progress import Advance, CallProgress
from pfl_audit.models.pages_ahead import PreparingModel, pages_of
from pfl_audit.models.placement import tokens_found
from pfl_audit.progress import Task

T = TypeVar("T")
M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)
Call = Callable[[M, Task], T]
"""What is asked of a model, and what reports its progress; for another process it must be possible to pickle."""

_DEATHS = 3
"""Processes that one call may cost."""
_START = -1
"""Key of the deaths before a first call, among those by number of a call."""


class Opening(Protocol[M_co]):
    """How what is called was opened: hashable, and possible to pickle."""

    @property
    def version(self) -> str:
        """Version of pfl-audit."""

    def open(self) -> M_co:
        """Open the same again, in another process.

        Raises:
            AuditError: It cannot be opened, or has changed.
        """


class Calls(Protocol[M_co]):
    """What calls one model."""

    @property
    def batch_tokens(self) -> int | None:
        """Tokens of a batch that memory was found to have room for; None where it has not run out."""

    @property
    def shares_files(self) -> bool:
        """Whether calls may keep files of this machine, such as the state of a search."""

    def each(
        self, calls: Sequence[Call[M_co, T]], task: Task | None = None, units: Sequence[int] | None = None
    ) -> Iterator[tuple[int, T | UnanswerableError]]:
        """The number of each call and what it gave, in any order; where it is taken late, no more are begun.

        Args:
            calls: What to call.
            task: Shows what is done of the calls, as far as they report it.
            units: Units of each call in the task; what a call has not reported is added when it ends.
        """


def taken(
    calls: Calls[M],
    works: Sequence[Call[M, T]],
    is_one: Callable[[object], bool],
    task: Task | None = None,
    units: Sequence[int] | None = None,
) -> Iterator[tuple[int, T]]:
    """As of ``Calls.each``, where every call has to give something.

    Args:
        is_one: Whether something is what a call gives; it may come from another machine.

    Raises:
        UnanswerableError: A call needs a page that cannot be read.
        WorkersError: A call gave something else.
    """
    for at, found in calls.each(works, task, units):
        if isinstance(found, UnanswerableError):
            raise found
        require_given(is_one(found))
        yield at, found


def require_given(is_one: bool) -> None:
    """Raise WorkersError unless a process gave what was asked of it."""
    if not is_one:
        raise WorkersError("a process gave back something else than asked", "Install the same pfl-audit everywhere")


class Workers(Protocol):
    """Other processes that hold models: those of this machine, or the actors of a cluster."""

    @property
    def shares_files(self) -> bool:
        """As of Calls."""

    def calls(self, opening: Opening[M]) -> Calls[M]:
        """Calls of the model that an opening gives."""


class InTurn(Generic[M]):
    """Calls of a model of this process, in order; pages of the next call are prepared during the present one."""

    shares_files = True

    def __init__(self, model: M) -> None:
        self._model = model

    @property
    def batch_tokens(self) -> int | None:
        """As of Calls."""
        return tokens_found(self._model)

    def each(
        self, calls: Sequence[Call[M, T]], task: Task | None = None, units: Sequence[int] | None = None
    ) -> Iterator[tuple[int, T | UnanswerableError]]:
        """As of Calls."""
        account = CallProgress(task, units)
        with self.ahead() as prepare:
            for at, call in enumerate(calls):
                prepare(calls[at : at + 2])
                found = self.ask(call, account.of(at))
                account.end(at)
                yield at, found

    def ask(self, call: Call[M, T], task: Task) -> T | UnanswerableError:
        """What one call gives."""
        try:
            return call(self._model, task)
        except UnanswerableError as error:
            return error

    @contextmanager
    def ahead(self) -> Iterator[Callable[[Sequence[Call[M, Any]]], None]]:
        """A function that prepares the pages of calls, in a second thread that ends with the context."""
        try:
            yield self._prepare
        finally:
            self._prepare(())

    def _prepare(self, calls: Sequence[Call[M, Any]]) -> None:
        if isinstance(self._model, PreparingModel):
            with suppress(UnanswerableError):  # of a page that cannot be read: its call gives the error
                self._model.prepare([document for call in calls for document in pages_of(call)])


@dataclass(frozen=True)
class Reply(Generic[T]):
    """What a call gave; exceptions as their arguments, since they cannot be pickled.

    Attributes:
        unanswerable: Of an UnanswerableError.
        failed: Of an AuditError, and the name of its class.
        tokens: As of ``tokens_found``, of the model that was called.
    """

    given: T | None = None
    unanswerable: tuple[str, str, str] | None = None
    failed: tuple[str, str, str] | None = None
    tokens: int | None = None

    def is_one(self) -> bool:
        """Whether it has the form of a reply, which may come from another machine."""
        counted = self.tokens is None or (type(self.tokens) is int and self.tokens > 0)
        return counted and _are_texts(self.unanswerable) and _are_texts(self.failed)

    def found(self) -> T | UnanswerableError:
        """What the call gave.

        Raises:
            AuditError: It failed.
        """
        if self.failed is not None:
            problem, remedy, kind = self.failed
            raise _ERRORS.get(kind, AuditError)(problem, remedy)
        return UnanswerableError(*self.unanswerable) if self.unanswerable is not None else cast("T", self.given)


_ERRORS = {kind.__name__: kind for kind in (NotAuditableError, StorageError, UsageError)}
"""Errors that are distinguished, by name."""


def _are_texts(found: object) -> bool:
    """True for None, and for a tuple of three texts."""
    return found is None or (
        isinstance(found, tuple) and len(found) == 3 and all(isinstance(one, str) for one in found)
    )


class Holder(Protocol):
    """Another process, which opens a model when it is first called, and keeps it."""

    def send(self, opening: Opening[M], call: Call[M, Any]) -> None:
        """Begin a call; where the process has died, ``receive`` says so.

        Raises:
            AuditError: The call cannot be sent to another process.
        """

    def has_started(self) -> bool:
        """Whether it has started; False if it died. Called once ``Holders.ready`` has returned it before a call."""

    def receive(self) -> Reply[Any] | Advance | None:
        """What the call returned or reports, once it is ready; None where the process has died."""

    def end(self) -> None:
        """End the process, whatever it does."""


H = TypeVar("H", bound=Holder)


class Holders(Protocol[H]):
    """Where processes that hold models are started.

    Attributes:
        fewer: What helps where they run out of memory.
        waits: Whether a process may wait for room before it starts; it gets no call until it has started.
        shares_files: As of Calls.
    """

    fewer: str
    waits: bool
    shares_files: bool

    @property
    def room(self) -> int:
        """How many there may be at a time, at least one.

        Raises:
            AuditError: There is no room left.
        """

    def start(self) -> H:
        """Start one."""

    def ready(self, busy: Sequence[H]) -> Sequence[H]:
        """Wait until some have started, have a reply to their call or have died, and return these."""


class Pool(Generic[H]):
    """Processes that hold models, and calls that go to whichever is free.

    Args:
        holders: Where they are started.
    """

    def __init__(self, holders: Holders[H]) -> None:
        self._holders = holders
        self.idle: list[H] = []
        self.starting: list[H] = []
        self.tokens: dict[Opening[Any], int] = {}

    @property
    def shares_files(self) -> bool:
        """As of Calls."""
        return self._holders.shares_files

    def calls(self, opening: Opening[M]) -> Calls[M]:
        """Calls of the model that an opening gives."""
        return _Held(self, opening)

    def each(
        self,
        opening: Opening[M],
        calls: Sequence[Call[M, T]],
        task: Task | None = None,
        units: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, T | UnanswerableError]]:
        """As of Calls.

        Raises:
            AuditError: A checkpoint changed or cannot be opened again, or a call cost a process three times.
        """
        if not calls:
            return
        waiting, deaths, account = deque(enumerate(calls)), Counter[int](), CallProgress(task, units)
        busy: list[tuple[H, int]] = []
        self._fill(len(calls))
        try:
            while waiting or busy:
                while waiting and self.idle:
                    at, call = waiting.popleft()
                    busy.append((self.idle.pop(), at))
                    busy[-1][0].send(opening, call)
                for one in self._holders.ready([*self.starting, *(holder for holder, _ in busy)]):
                    if one in self.starting:
                        if not self._take(one):
                            deaths[_START] += 1
                            _require_starts(deaths[_START])
                        self._fill(len(waiting) + len(busy), len(busy))
                        continue
                    found = next(pair for pair in busy if pair[0] is one)
                    at = found[1]
                    reply: Reply[T] | Advance | None = one.receive()
                    if reply is not None and not reply.is_one():
                        raise WorkersError("a process gave back no reply", "Install the same pfl-audit everywhere")
                    if isinstance(reply, Advance):
                        account.advance(at, reply.amount, reply.note)
                        continue
                    busy.remove(found)
                    if reply is None:
                        one.end()
                        account.restart(at)
                        deaths[at] += 1
                        if deaths[at] == _DEATHS:
                            raise WorkersError(
                                f"{_DEATHS} processes were killed over one batch, perhaps for want of memory",
                                f"Repeat the command with {self._holders.fewer}: it goes on",
                            )
                        waiting.appendleft((at, calls[at]))
                        self._fill(len(waiting) + len(busy), len(busy))
                        continue
                    self.idle.append(one)
                    if reply.tokens is not None:
                        self.tokens[opening] = min(reply.tokens, self.tokens.get(opening, reply.tokens))
                    given = reply.found()
                    account.end(at)
                    yield at, given
        finally:
            for one, _ in busy:  # what it would send belongs to this loop
                one.end()

    def _take(self, one: H) -> bool:
        """Make a process idle that has started, or end one that has died; whether it has started."""
        self.starting.remove(one)
        if one.has_started():
            self.idle.append(one)
            return True
        one.end()
        return False

    def _fill(self, wanted: int, busy: int = 0) -> None:
        """Start as many as are wanted and have room."""
        new = self.starting if self._holders.waits else self.idle
        while len(self.idle) + len(self.starting) + busy < min(self._holders.room, wanted):
            new.append(self._holders.start())


def _require_starts(deaths: int) -> None:
    if deaths == _DEATHS:
        raise WorkersError(f"{_DEATHS} processes died as they started", "See the log of the machine that holds them")


class _Held(Generic[M]):
    """A model that processes hold."""

    def __init__(self, pool: Pool[Any], opening: Opening[M]) -> None:
        self._pool, self._opening = pool, opening

    @property
    def batch_tokens(self) -> int | None:
        return self._pool.tokens.get(self._opening)

    @property
    def shares_files(self) -> bool:
        return self._pool.shares_files

    def each(
        self, calls: Sequence[Call[M, T]], task: Task | None = None, units: Sequence[int] | None = None
    ) -> Iterator[tuple[int, T | UnanswerableError]]:
        return self._pool.each(self._opening, calls, task, units)

"""Calls of a model: in this process one after another, or by several that hold it and are free at different times.

One loop hands calls out, whatever holds the models: processes of this machine, or actors of a cluster. Nothing that
these hold is written: results come back, and the caller keeps them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from pfl_audit import __version__
from pfl_audit.errors import AuditError, UnanswerableError, WorkersError
from pfl_audit.models.family import Precision
from pfl_audit.models.open import open_model
from pfl_audit.models.placement import tokens_found
from pfl_audit.models.protocol import DocumentModel

T = TypeVar("T")
Call = Callable[[DocumentModel], T]
"""What is asked of a model; for another process it must be possible to pickle."""

_DEATHS = 3
"""Processes that one call may cost."""


class Calls(Protocol):
    """What calls one model."""

    @property
    def batch_tokens(self) -> int | None:
        """Tokens of a batch that memory was found to have room for; None where it has not run out."""

    def each(self, calls: Sequence[Call[T]]) -> Iterator[tuple[int, T | UnanswerableError]]:
        """The number of each call and what it gave, in any order; where it is taken late, no more are begun."""


class Workers(Protocol):
    """Other processes that hold models: those of this machine, or the actors of a cluster."""

    def calls(self, opening: Opening) -> Calls:
        """Calls of the model that an opening gives."""


class InTurn:
    """Calls of a model of this process, in order."""

    def __init__(self, model: DocumentModel) -> None:
        self._model = model

    @property
    def batch_tokens(self) -> int | None:
        """As of Calls."""
        return tokens_found(self._model)

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
        version: Of pfl-audit.
    """

    name: str
    device: str
    download: bool
    prompt: str | None
    fingerprint: str
    precision: Precision = "fp32"
    batch_tokens: int | None = None
    version: str = __version__


@dataclass(frozen=True)
class Reply(Generic[T]):
    """What a call gave; exceptions as their arguments, since they cannot be pickled.

    Attributes:
        unanswerable: Of an UnanswerableError.
        failed: Of an AuditError.
        tokens: As of ``tokens_found``, of the model that was called.
    """

    given: T | None = None
    unanswerable: tuple[str, str, str] | None = None
    failed: tuple[str, str] | None = None
    tokens: int | None = None

    def is_one(self) -> bool:
        """Whether it has the form of a reply, which may come from another machine."""
        told = self.tokens is None or (type(self.tokens) is int and self.tokens > 0)
        return told and _are_texts(self.unanswerable, 3) and _are_texts(self.failed, 2)

    def found(self) -> T | UnanswerableError:
        """What the call gave.

        Raises:
            AuditError: It failed.
        """
        if self.failed is not None:
            raise AuditError(*self.failed)
        return UnanswerableError(*self.unanswerable) if self.unanswerable is not None else cast("T", self.given)


def _are_texts(found: object, count: int) -> bool:
    """Whether something is None, or a tuple of so many texts."""
    return found is None or (
        isinstance(found, tuple) and len(found) == count and all(isinstance(one, str) for one in found)
    )


class Holder(Protocol):
    """Another process, which opens a checkpoint when it is first asked of it, and keeps it."""

    def send(self, opening: Opening, call: Call[Any]) -> None:
        """Begin a call; where the process has died, ``receive`` says so.

        Raises:
            AuditError: The call cannot be sent to another process.
        """

    def receive(self) -> Reply[Any] | None:
        """What the call gave, once it is ready; None where the process has died."""

    def end(self) -> None:
        """End the process, whatever it does."""


H = TypeVar("H", bound=Holder)


class Holders(Protocol[H]):
    """Where processes that hold models are started.

    Attributes:
        fewer: What helps where they run out of memory.
    """

    fewer: str

    @property
    def room(self) -> int:
        """How many there may be at a time, at least one.

        Raises:
            AuditError: There is no room left.
        """

    def start(self) -> H:
        """Start one."""

    def ready(self, busy: Sequence[H]) -> Sequence[H]:
        """Wait until some of those that were sent a call have a reply or have died, and return these."""


class Pool(Generic[H]):
    """Processes that hold models, and calls that go to whichever is free.

    Args:
        holders: Where they are started.
    """

    def __init__(self, holders: Holders[H]) -> None:
        self._holders = holders
        self.idle: list[H] = []
        self.tokens: dict[Opening, int] = {}

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
        busy: list[tuple[H, int]] = []
        self._fill(len(calls))
        try:
            while waiting or busy:
                while waiting and self.idle:
                    at, call = waiting.popleft()
                    busy.append((self.idle.pop(), at))
                    busy[-1][0].send(opening, call)
                for one in self._holders.ready([holder for holder, _ in busy]):
                    found = next(pair for pair in busy if pair[0] is one)
                    busy.remove(found)
                    at = found[1]
                    reply: Reply[T] | None = one.receive()
                    if reply is not None and not reply.is_one():
                        raise WorkersError("a process gave back no reply", "Install the same pfl-audit everywhere")
                    if reply is None:
                        one.end()
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
                    yield at, reply.found()
        finally:
            for one, _ in busy:  # what it would send belongs to this loop
                one.end()

    def _fill(self, wanted: int, busy: int = 0) -> None:
        """Start as many as are wanted and have room."""
        while len(self.idle) + busy < min(self._holders.room, wanted):
            self.idle.append(self._holders.start())


class _Held:
    """A model that processes hold."""

    def __init__(self, pool: Pool[Any], opening: Opening) -> None:
        self._pool, self._opening = pool, opening

    @property
    def batch_tokens(self) -> int | None:
        return self._pool.tokens.get(self._opening)

    def each(self, calls: Sequence[Call[T]]) -> Iterator[tuple[int, T | UnanswerableError]]:
        return self._pool.each(self._opening, calls)


def reply(models: dict[Opening, DocumentModel], opening: Opening, call: Call[T], fewer: str) -> Reply[T]:
    """Call a model, in the process that holds it.

    Args:
        models: The opened ones; the one that is called is added.
        fewer: As of ``Holders``.
    """
    try:
        if opening not in models:
            models[opening] = _opened(opening)
        return Reply(call(models[opening]), tokens=tokens_found(models[opening]))
    except UnanswerableError as error:
        return Reply(unanswerable=(error.problem, error.remedy, error.reason))
    except AuditError as error:
        return Reply(failed=(error.problem, error.remedy))
    except Exception as error:
        return failed(error, fewer)


def failed(error: Exception, fewer: str) -> Reply[Any]:
    """What no call foresees, without its text, which may hold a value."""
    kind = type(error).__name__
    if isinstance(error, MemoryError) or kind == "OutOfMemoryError":  # the latter is torch's
        return Reply(failed=("out of memory", f"Repeat the command with {fewer}: it goes on"))
    return Reply(failed=(f"internal error: {kind}", "Repeat the command with one process, and report it"))


def _opened(opening: Opening) -> DocumentModel:
    if opening.version != __version__:
        raise AuditError("a machine has another version of pfl-audit", "Install the same one everywhere")
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

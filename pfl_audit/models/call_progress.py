"""What several calls have done, as far as each reports it, in one task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pfl_audit.progress import Silent, Task


@dataclass(frozen=True)
class Advance:
    """What a call has done since its last report; it has not ended."""

    amount: int
    note: str = ""

    def is_one(self) -> bool:
        """Whether its fields have their types; it may come from another process."""
        return type(self.amount) is int and isinstance(self.note, str)


class CallProgress:
    """What is done of several calls, reported to one task.

    Args:
        task: Shows it; None shows nothing.
        units: Units of each call in the task; what a call has not reported is added when it ends.
    """

    def __init__(self, task: Task | None, units: Sequence[int] | None) -> None:
        self._task, self._units = task or Silent(), units
        self._reported = Counter[int]()

    def of(self, at: int) -> Task:
        """The part of one call."""
        return _Part(self, at)

    def advance(self, at: int, amount: int, note: str = "") -> None:
        """A call has done something."""
        self._reported[at] += amount
        self._task.advance(amount, note)

    def end(self, at: int) -> None:
        """A call has ended."""
        if self._units is not None and (left := self._units[at] - self._reported[at]):
            self.advance(at, left)

    def restart(self, at: int) -> None:
        """A call begins again: take back what it reported."""
        if reported := self._reported[at]:
            self.advance(at, -reported)


@dataclass(frozen=True)
class _Part:
    account: CallProgress
    at: int

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.account.advance(self.at, amount, note)

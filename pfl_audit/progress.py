"""Progress reporting protocol, independent of the display."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Task(Protocol):
    """A task of known size."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Report ``amount`` more units as done, optionally with a note."""


class Progress(Protocol):
    """Progress reporting protocol."""

    def task(self, name: str, total: int, done: int = 0) -> AbstractContextManager[Task]:
        """Start a task of ``total`` units, ``done`` of which are already done."""

    def say(self, text: str) -> None:
        """Report a message."""


class Within:
    """Progress within a task: what is done of its parts is done of it; their names and messages are left out."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def task(self, name: str, total: int, done: int = 0) -> AbstractContextManager[Task]:
        """The task itself."""
        if done:
            self._task.advance(done)
        return nullcontext(self._task)

    def say(self, text: str) -> None:
        """Do nothing."""


class Silent:
    """Progress reporting without output."""

    def task(self, name: str, total: int, done: int = 0) -> AbstractContextManager[Task]:
        """Do nothing."""
        return nullcontext(self)

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""

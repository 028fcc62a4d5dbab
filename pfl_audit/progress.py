"""Progress of long work, reported independently of how it is displayed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Task(Protocol):
    """A piece of work with a known amount."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Tell that ``amount`` more is done, and perhaps what was seen."""
        ...


class Progress(Protocol):
    """Display of progress."""

    def task(self, name: str, total: int, done: int = 0) -> AbstractContextManager[Task]:
        """Start a piece of work of ``total`` parts, ``done`` of which were done before."""
        ...

    def say(self, text: str) -> None:
        """Tell something once."""
        ...


class Silent:
    """Displays nothing."""

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Task]:
        """Show nothing."""
        yield _SilentTask()

    def say(self, text: str) -> None:
        """Say nothing."""


class _SilentTask:
    def advance(self, amount: int = 1, note: str = "") -> None:
        """Show nothing."""

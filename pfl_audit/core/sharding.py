"""Shares of an audit's questions, for processes that know nothing of each other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from pfl_audit.errors import UsageError

T = TypeVar("T")
MOST_SHARES = 10_000


@dataclass(frozen=True)
class Share:
    """One of several equal shares.

    Attributes:
        number: 1 to ``of``.
        of: Number of shares.
    """

    number: int
    of: int

    def has(self, at: int) -> bool:
        """Whether the item at a place is in it: every ``of``-th one is."""
        return at % self.of == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def read_share(text: str) -> Share:
    """A share written as ``2/8``.

    Raises:
        UsageError: The text has another form, or there is no such share.
    """
    found = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", text)
    share = Share(int(found[1]), int(found[2])) if found else Share(0, 0)
    if not 1 <= share.number <= share.of <= MOST_SHARES:
        raise UsageError(
            f"--shard {text:.40} is no share", f"Write --shard 1/8 for the first of eight; {MOST_SHARES:,} at most"
        )
    return share


class ElsewhereError(Exception):
    """Something that another share computes is needed to go on."""


class Awaited(dict[str, T]):
    """In the place of values of which other shares compute some; whoever reads it cannot go on."""

    def _wait(self, *given: object) -> NoReturn:
        raise ElsewhereError

    __getitem__ = __contains__ = __iter__ = __len__ = __or__ = __ror__ = __eq__ = _wait
    get = keys = values = items = copy = _wait
    __hash__ = None

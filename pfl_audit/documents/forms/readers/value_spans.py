"""Where on a page a value stands that was written down apart from it."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence

_Span = tuple[int, int]


def find_value(words: Sequence[str], value: str, *, after: str | None = None) -> _Span | None:
    """The words that hold a value, letters and digits compared without case, blanks and signs.

    Args:
        words: Of the page, in reading order.
        value: What to find.
        after: Of several places, the one that follows a word with this beginning most closely is taken, and an
            amount is found without its currency as well; else the first place is.

    Returns:
        [start, stop) of the words, or None where the value does not stand there.
    """
    spans = occurrences(words, value)
    if after is None:
        return spans[0] if spans else None
    spans = spans or occurrences(words, re.sub(r"[^\d.,]", "", value))
    heads = [-len(words), *(number for number, word in enumerate(words) if _plain(word).startswith(after))]
    return min(spans, key=lambda span: min(span[0] - heads[bisect(heads, span[0]) - 1], len(words)), default=None)


def occurrences(words: Sequence[str], value: str) -> list[_Span]:
    """Every run of words that reads as ``value``; where none does, every run that holds it.

    A run holds a value only where letters meet digits at its ends (``RM9.00``), so that ``9.00`` is not
    found in ``19.00``.
    """
    target = _plain(value)
    text = ""
    owners: list[int] = []
    for number, word in enumerate(words):
        plain = _plain(word)
        text += plain
        owners += [number] * len(plain)
    exact: list[_Span] = []
    inside: list[_Span] = []
    at = text.find(target) if target else -1
    while at >= 0:
        end = at + len(target)
        span = (owners[at], owners[end - 1] + 1)
        breaks = [edge in (0, len(text)) or owners[edge - 1] != owners[edge] for edge in (at, end)]
        if all(breaks):
            exact.append(span)
        elif all(
            cut or text[edge - 1].isdigit() != text[edge].isdigit() for cut, edge in zip(breaks, (at, end), strict=True)
        ):
            inside.append(span)
        at = text.find(target, at + 1)
    return exact or inside


def _plain(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())

"""Location of a value among the words of a page."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence

_Span = tuple[int, int]


def find_value(words: Sequence[str], value: str, *, after: str | None = None) -> _Span | None:
    """Span of the words of a value, compared by letters and digits without case.

    Args:
        words: Words of the page, in reading order.
        after: Prefix of a word. Of several spans the one that follows such a word most closely is returned, and an
            amount is also found without its currency. Without it the first span is returned.

    Returns:
        [start, stop) of the words, or None if the value is not found.
    """
    spans = occurrences(words, value)
    if after is None:
        return spans[0] if spans else None
    spans = spans or occurrences(words, re.sub(r"[^\d.,]", "", value))
    heads = [-len(words), *(number for number, word in enumerate(words) if _letters_and_digits(word).startswith(after))]
    return min(spans, key=lambda span: min(span[0] - heads[bisect(heads, span[0]) - 1], len(words)), default=None)


def occurrences(words: Sequence[str], value: str) -> list[_Span]:
    """All runs of words equal to ``value``; if there are none, all runs that contain it.

    A run contains a value only if letters meet digits at its ends (``RM9.00``), so that ``9.00`` is not found in
    ``19.00``.
    """
    target = _letters_and_digits(value)
    text = ""
    owners: list[int] = []
    for number, word in enumerate(words):
        letters = _letters_and_digits(word)
        text += letters
        owners += [number] * len(letters)
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


def _letters_and_digits(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())

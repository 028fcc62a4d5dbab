"""Fields of a tagged sequence, as ``DonutProcessor.token2json`` of transformers reads them.

A field is what lies between ``<s_key>`` and the next ``</s_key>``. If it has tags of its own it is a group, whose
fields have paths; ``<sep/>`` after a closing tag begins the next group of a list. Otherwise it is a value, or several
between ``<sep/>``. An opening tag that is never closed is ignored, and of two fields of one key in a group the later
counts. Here tags are tokens: text that spells a tag is text, and nesting beyond MOST_DEPTH is ignored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pfl_audit.models.donut_fields.tags import FieldTags

MOST_DEPTH: Final = 16


@dataclass(frozen=True)
class Span:
    """A field in a sequence.

    Attributes:
        path: Keys of its tags, outermost first.
        start: Index of its first token, after the opening tag or separator.
        stop: Index after its last token: of the closing tag or separator.
        group: Whether it holds fields instead of a value.
    """

    path: tuple[str, ...]
    start: int
    stop: int
    group: bool = False


def parse(ids: Sequence[int], tags: FieldTags) -> list[Span]:
    """Fields and groups of a sequence in their order, each group before its fields."""
    return _Parser(ids, tags).spans(0, len(ids), (), 0)


def value_ids(ids: Sequence[int], span: Span) -> list[int]:
    """Tokens of a field."""
    return list(ids[span.start : span.stop])


class _Parser:
    def __init__(self, ids: Sequence[int], tags: FieldTags) -> None:
        self._ids, self._tags = ids, tags
        self._keys = {token: key for key, token in tags.opens.items()}
        closing = {token: key for key, token in tags.closes.items()}
        self._closed: dict[str, list[int]] = {}
        self._opened = [place for place, token in enumerate(ids) if token in self._keys]
        self._ended = [place for place, token in enumerate(ids) if token in closing]
        for place in self._ended:
            self._closed.setdefault(closing[ids[place]], []).append(place)

    def spans(self, start: int, stop: int, path: tuple[str, ...], depth: int) -> list[Span]:
        found: list[Span] = []
        group: dict[str, list[Span]] = {}
        place = start
        while place < stop:
            key = self._keys.get(self._ids[place])
            close = None if key is None else self._next(self._closed.get(key, []), place, stop)
            if key is None or close is None:
                place += 1
                continue
            if inner := self._field((*path, key), place + 1, close, depth):
                group[key] = inner
            place = close + 1
            if place < stop and self._ids[place] == self._tags.separator:
                found += [span for spans in group.values() for span in spans]
                group = {}
        return found + [span for spans in group.values() for span in spans]

    def _field(self, path: tuple[str, ...], start: int, stop: int, depth: int) -> list[Span]:
        """Spans of a field: itself and its fields, or its values; none if it is an empty group."""
        if self._next(self._opened, start, stop) is not None and self._next(self._ended, start, stop) is not None:
            inner = self.spans(start, stop, path, depth + 1) if depth + 1 < MOST_DEPTH else []
            return [Span(path, start, stop, group=True), *inner] if inner else []
        ends = [place for place in range(start, stop) if self._ids[place] == self._tags.separator]
        return [
            Span(path, first, last)
            for first, last in zip([start, *(end + 1 for end in ends)], [*ends, stop], strict=True)
        ]

    @staticmethod
    def _next(places: Sequence[int], start: int, stop: int) -> int | None:
        """The first of sorted places from start to before stop."""
        at = bisect_left(places, start)
        return places[at] if at < len(places) and places[at] < stop else None

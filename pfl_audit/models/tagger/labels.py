"""Labels of a token tagger: ``id2label`` of config.json as keys of fields. Imports no torch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from pfl_audit.models.field_keys import is_key, normal_key

MOST_LABELS: Final = 4096
OUTSIDE: Final = "O"
_BEGINS, _INSIDE, _ENDS = frozenset("BSU"), frozenset("IEL"), frozenset("ELSU")


@dataclass(frozen=True)
class Labels:
    """Labels by number.

    A label is O, or a prefix of BIO, BIOES or BILOU, a hyphen and a name; a label without such a prefix is a name. The
    key is the name in lower case, with ``_`` for blanks and hyphens.

    Attributes:
        names: Label of each output of the head.
    """

    names: tuple[str, ...]

    @cached_property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Prefix and key of each label; the key of O is empty."""
        return tuple(_parts(name) for name in self.names)

    @cached_property
    def keys(self) -> dict[str, tuple[int, ...]]:
        """Key to the numbers of its labels."""
        found: dict[str, tuple[int, ...]] = {}
        for number, (_, key) in enumerate(self.parts):
            if key:
                found[key] = (*found.get(key, ()), number)
        return found

    def spans(self, labels: Sequence[int]) -> list[tuple[str, int, int]]:
        """Spans of a sequence of labels: key, first word, and the word after the last.

        A label continues the span before it if it has the same key, does not begin a span, and the label before does
        not end one; otherwise it begins a span, whatever its prefix.
        """
        starts = [
            place
            for place, label in enumerate(labels)
            if self.parts[label][1] and not (place and self._continues(labels[place - 1], label))
        ]
        ends = [place for place, label in enumerate(labels) if not self.parts[label][1]] + [len(labels)]
        found = []
        for start, following in pairwise([*starts, len(labels)]):
            stop = min(following, ends[bisect_right(ends, start)])
            found.append((self.parts[labels[start]][1], start, stop))
        return found

    def true(self, key: str, words: int) -> list[int]:
        """Labels of a span of words, as this set of labels writes it."""
        own = {self.parts[number][0]: number for number in self.keys[key]}
        return [own[self._prefix(set(own), place, words)] for place in range(words)]

    def _continues(self, before: int, label: int) -> bool:
        (left, key), (right, same) = self.parts[before], self.parts[label]
        return key == same and right not in _BEGINS and left not in _ENDS

    @staticmethod
    def _prefix(own: set[str], place: int, words: int) -> str:
        """Prefix of a word of a span, of those that there are."""
        alone, first, last = words == 1, place == 0, place == words - 1
        wanted = "SUBIEL" if alone else "BI" if first else "ELIB" if last else "IB"
        return next((prefix for prefix in wanted if prefix in own), sorted(own)[0])


def read_labels(config: Mapping[str, Any]) -> Labels:
    """Labels of a ``config.json``.

    Raises:
        ValueError: ``id2label`` is no mapping of the numbers 0 to n - 1 to printable texts; the message has the reason
            and no label.
    """
    said = config.get("id2label")
    if not isinstance(said, Mapping) or not said:
        raise ValueError("it has no id2label")
    if len(said) > MOST_LABELS:
        raise ValueError(f"id2label has more than {MOST_LABELS:,} labels")
    numbered = {int(number): name for number, name in said.items() if str(number).isdecimal() and len(str(number)) < 9}
    if sorted(numbered) != list(range(len(said))):
        raise ValueError("the keys of id2label are not the numbers from 0")
    names = [numbered[number] for number in range(len(numbered))]
    if odd := [number for number, name in enumerate(names) if not is_key(name)]:
        raise ValueError(f"label {odd[0]} of id2label is no short printable text")
    labels = Labels(tuple(names))
    if not labels.keys:
        raise ValueError("id2label has no label of a field")
    return labels


def _parts(name: str) -> tuple[str, str]:
    if name == OUTSIDE:
        return "", ""
    prefix, hyphen, rest = name.partition("-")
    if hyphen and rest and len(prefix) == 1 and prefix in _BEGINS | _INSIDE:
        return prefix, normal_key(rest)
    return "", normal_key(name)

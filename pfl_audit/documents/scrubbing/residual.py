"""Residual identifiers on a scrubbed page: words that still identify the removed value.

Detection uses other rules than removal, so that it finds what removal missed. Residual identifiers are reported and
not removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from rapidfuzz.distance import LCSseq

from pfl_audit.documents.document import Document
from pfl_audit.documents.scrubbing.domains import domain_labels, without_affixes
from pfl_audit.documents.scrubbing.page_words import PageWords
from pfl_audit.documents.scrubbing.scrub import find_value
from pfl_audit.documents.scrubbing.stop_words import STOP_WORDS
from pfl_audit.documents.scrubbing.value_patterns import value_patterns

_LEAST_SHARE = 0.7
"""Smallest length of a common substring as a share of the shorter text: ``ville`` identifies neither of two towns."""


class ResidualKind(StrEnum):
    """Ways in which a word identifies a removed value."""

    FRAGMENT = "fragment"
    """A word shares a long substring with the value, or is an anagram of a part of it."""
    INITIALS = "initials"
    """A word in capitals is the initials of the value."""
    DOMAIN = "domain"
    """A website or email address that abbreviates the value: its first letter, and most of its consonants in order."""
    PICTURE = "picture"
    """OCR still reads the value, or a distinctive word of it, in the blurred image."""


@dataclass(frozen=True)
class ResidualIdentifier:
    """A word that identifies the removed value.

    Attributes:
        kind: How the word identifies the value.
        word: Index of the word on the scrubbed page.
    """

    kind: ResidualKind
    word: int


def residual_identifiers(document: Document, value: str) -> list[ResidualIdentifier]:
    """Words of a scrubbed page that still identify ``value``.

    Returns:
        At most one identifier per word, in reading order.
    """
    detector, page = _detector(value), PageWords(document.words)
    kinds = [(index, detector.kind(page, index)) for index in range(len(page.words))]
    return [ResidualIdentifier(kind, index) for index, kind in kinds if kind is not None]


def residual_identifiers_in_image(read: str, value: str) -> list[ResidualIdentifier]:
    """Words that OCR reads in a blurred image and that still identify ``value``.

    Args:
        read: OCR text of the image.

    Returns:
        One identifier per word that is part of the value.
    """
    return [ResidualIdentifier(ResidualKind.PICTURE, index) for index in sorted(find_value(tuple(read.split()), value))]


class _Detector:
    """Detects words that identify a value."""

    def __init__(self, value: str) -> None:
        patterns = value_patterns(value)
        self._initials = patterns.initials
        self._parts = [part for part in {*patterns.near, *patterns.inside} if len(part) >= 3]
        self._anagrams = {(part[0], *sorted(part)) for part in self._parts if len(part) >= 4}
        self._runs = [(len(part), part.isdigit(), SuffixAutomaton(part)) for part in self._parts]

    def kind(self, page: PageWords, index: int) -> ResidualKind | None:
        """How a word identifies the value, or None."""
        text = page.normalized[index]
        if text in self._initials and page.words[index].isupper():
            return ResidualKind.INITIALS
        if len(text) < 3 or page.is_stop_word(index):
            return None
        labels = domain_labels(page.words[index])
        if any(_abbreviates(label, self._parts) for label in labels):
            return ResidualKind.DOMAIN
        if (text[0], *sorted(text)) in self._anagrams and not text.isdigit():
            return ResidualKind.FRAGMENT
        if text.isdigit():
            return ResidualKind.FRAGMENT if not page.is_amount_or_date(index) and self._shares(text) else None
        own = {min(without_affixes(name, 4), key=len) for name in labels or (text,)}
        return ResidualKind.FRAGMENT if any(self._shares(name) for name in own - STOP_WORDS) else None

    def _shares(self, text: str) -> bool:
        """Whether a text shares a substring with a part of the value that is long enough for both."""
        return any(
            text.isdigit() == digits
            and runs.longest_common_substring(text) >= max(4, _LEAST_SHARE * min(len(text), length))
            for length, digits, runs in self._runs
        )


@lru_cache(maxsize=1024)
def _detector(value: str) -> _Detector:
    return _Detector(value)


def _abbreviates(label: str, parts: Iterable[str]) -> bool:
    """Whether most letters of a domain label, and most consonants of a part, occur in the order of the part."""
    for part in parts:
        consonants = sum(letter not in "aeiou" for letter in part)
        enough = 0.75 * max(len(label), consonants)
        if len(label) >= 3 and label[0] == part[0] and LCSseq.similarity(label, part) >= enough:
            return True
    return False


class SuffixAutomaton:
    """Suffix automaton of a text (Blumer et al., 1985)."""

    def __init__(self, text: str) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        last = 0
        for letter in text:
            last = self._append(letter, last)

    def longest_common_substring(self, other: str) -> int:
        """Length of the longest substring that also occurs in ``other``."""
        state = length = best = 0
        for letter in other:
            while state and letter not in self._next[state]:
                state = self._link[state]
                length = self._length[state]
            if letter in self._next[state]:
                state = self._next[state][letter]
                length += 1
                best = max(best, length)
        return best

    def _append(self, letter: str, last: int) -> int:
        new = self._add({}, self._length[last] + 1, 0)
        state = last
        while state >= 0 and letter not in self._next[state]:
            self._next[state][letter] = new
            state = self._link[state]
        if state < 0:
            return new
        follower = self._next[state][letter]
        if self._length[follower] == self._length[state] + 1:
            self._link[new] = follower
            return new
        copy = self._add(dict(self._next[follower]), self._length[state] + 1, self._link[follower])
        self._link[follower] = self._link[new] = copy
        while state >= 0 and self._next[state].get(letter) == follower:
            self._next[state][letter] = copy
            state = self._link[state]
        return new

    def _add(self, following: dict[str, int], length: int, link: int) -> int:
        self._next.append(following)
        self._length.append(length)
        self._link.append(link)
        return len(self._next) - 1

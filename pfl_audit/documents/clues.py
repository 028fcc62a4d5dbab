"""A second look at a scrubbed page: what still points to the value that was taken off?

The first look asks "is this the value?"; this one asks "does this give it away?", by other means,
so that it finds what the first one missed. What it finds is reported, not removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from rapidfuzz.distance import LCSseq

from pfl_audit.documents.common_run import Runs
from pfl_audit.documents.document import Document
from pfl_audit.documents.hosts import domain_labels, without_affixes
from pfl_audit.documents.ordinary_words import ORDINARY
from pfl_audit.documents.page_text import PageText
from pfl_audit.documents.scrub import find_value
from pfl_audit.documents.value_forms import value_forms

_LONG_FOR_BOTH = 0.7
"""Share of the shorter of two texts that a common run must have: ``ville`` is none of two towns."""


class ClueKind(StrEnum):
    """Ways in which a page still gives a value away."""

    FRAGMENT = "fragment"
    """A word shares a run of letters with the value that is long for both, or has its letters in another order."""
    INITIALS = "initials"
    """A word in capitals is made of the first letters of the value's words."""
    DOMAIN = "domain"
    """A website or email address that abbreviates the value: its first letter, and most of its consonants in order."""
    PICTURE = "picture"
    """OCR still reads the value, or a distinctive word of it, in the blurred picture."""


@dataclass(frozen=True)
class Clue:
    """Something left on a page.

    Attributes:
        kind: Which way it points to the value.
        word: Number of the word on the scrubbed page.
    """

    kind: ClueKind
    word: int


def residual_clues(document: Document, value: str) -> list[Clue]:
    """Look through a scrubbed page for what still points to ``value``.

    Args:
        document: The page that is left.
        value: What was taken off.

    Returns:
        At most one clue a word, in reading order.
    """
    look, page = _look(value), PageText(document.words)
    kinds = [(index, look.kind(page, index)) for index in range(len(page.words))]
    return [Clue(kind, index) for index, kind in kinds if kind is not None]


def picture_clues(read: str, value: str) -> list[Clue]:
    """Look for ``value`` in what OCR reads in the blurred picture.

    Args:
        read: Its words.
        value: What was taken off.

    Returns:
        A clue for every word that is part of it.
    """
    return [Clue(ClueKind.PICTURE, index) for index in sorted(find_value(tuple(read.split()), value))]


class _Look:
    """What would give a value away.

    Args:
        value: What was taken off.
    """

    def __init__(self, value: str) -> None:
        forms = value_forms(value)
        self._initials = forms.initials
        self._parts = [part for part in {*forms.near, *forms.inside} if len(part) >= 3]
        self._anagrams = {(part[0], *sorted(part)) for part in self._parts if len(part) >= 4}
        self._runs = [(len(part), part.isdigit(), Runs(part)) for part in self._parts]

    def kind(self, page: PageText, index: int) -> ClueKind | None:
        """How a word gives the value away, or None."""
        plain = page.plain[index]
        if plain in self._initials and page.words[index].isupper():
            return ClueKind.INITIALS
        if len(plain) < 3 or page.ordinary(index):
            return None
        labels = domain_labels(page.words[index])
        if any(_abbreviates(label, self._parts) for label in labels):
            return ClueKind.DOMAIN
        if (plain[0], *sorted(plain)) in self._anagrams and not plain.isdigit():
            return ClueKind.FRAGMENT
        if plain.isdigit():
            return ClueKind.FRAGMENT if not page.amount_or_date(index) and self._shares(plain) else None
        own = {min(without_affixes(name, 4), key=len) for name in labels or (plain,)}
        return ClueKind.FRAGMENT if any(self._shares(name) for name in own - ORDINARY) else None

    def _shares(self, text: str) -> bool:
        """Whether a text shares a run of letters or digits with the value that is long for both."""
        return any(
            text.isdigit() == digits and runs.longest_in(text) >= max(4, _LONG_FOR_BOTH * min(len(text), length))
            for length, digits, runs in self._runs
        )


@lru_cache(maxsize=1024)
def _look(value: str) -> _Look:
    return _Look(value)


def _abbreviates(label: str, parts: Iterable[str]) -> bool:
    """Whether a domain's name has most of its letters, and most of the consonants of a part, in the part's order."""
    for part in parts:
        consonants = sum(letter not in "aeiou" for letter in part)
        enough = 0.75 * max(len(label), consonants)
        if len(label) >= 3 and label[0] == part[0] and LCSseq.similarity(label, part) >= enough:
            return True
    return False

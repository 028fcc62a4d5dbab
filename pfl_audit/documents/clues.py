"""A second look at a scrubbed page: what still points to the value that was taken off?

The first look asks "is this the value?"; this one asks "does this give it away?", by other means,
so that it finds what the first one missed. What it finds is reported, not removed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from rapidfuzz.distance import LCSseq

from pfl_audit.documents.common_run import Runs
from pfl_audit.documents.document import Document
from pfl_audit.documents.scrub import compact, find_value


class ClueKind(StrEnum):
    """Ways in which a page still gives a value away."""

    FRAGMENT = "fragment"
    """A word shares a run of letters with the value that is long for both."""
    INITIALS = "initials"
    """A word is made of the first letters of the value's words."""
    DOMAIN = "domain"
    """A website or email address whose letters come in order in the value, or the other way round."""
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
    target = compact(value)
    initials = "".join(part[0] for part in map(compact, value.split()) if part)
    runs = Runs(target)
    clues = []
    for index, word in enumerate(document.words):
        kind = _kind(word, target, initials, runs)
        if kind is not None:
            clues.append(Clue(kind, index))
    return clues


def picture_clues(read: str, value: str) -> list[Clue]:
    """Look for ``value`` in what OCR reads in the blurred picture.

    Args:
        read: Its words.
        value: What was taken off.

    Returns:
        A clue for every word that is part of it.
    """
    return [Clue(ClueKind.PICTURE, index) for index in sorted(find_value(tuple(read.split()), value))]


def _kind(word: str, target: str, initials: str, runs: Runs) -> ClueKind | None:
    plain = compact(word)
    if len(plain) < 3 or len(target) < 3:
        return None
    if len(initials) >= 3 and plain == initials:
        return ClueKind.INITIALS
    if (host := _host(word)) and len(host) >= 3:
        shared = LCSseq.similarity(host, target)
        if shared >= 0.75 * min(len(host), len(target)):
            return ClueKind.DOMAIN
    enough = max(4, 0.6 * min(len(plain), len(target)))
    if plain.isdigit() == target.isdigit() and runs.longest_in(plain) >= enough:
        return ClueKind.FRAGMENT
    return None


def _host(word: str) -> str:
    """The letters of a domain's name, without prefix and suffix; empty where the word is no domain."""
    match = re.search(
        r"(?:@|www\.|//)?([a-z0-9-]+)\.(?:com|net|org|tv|co|io|gov|edu|info|biz|us|de|fr|es|uk)\b", word.casefold()
    )
    return compact(match.group(1)) if match else ""

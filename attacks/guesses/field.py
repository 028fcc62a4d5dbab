"""A field whose value was taken off: the place of the truth among guesses, and whether the value is a secret.

A secret occurs once in the text of all pages. That is k-eidetic memorization with k = 1 (Carlini et al. 2021), counted
in the text of whole pages.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfl_audit.documents.scrubbing.page_words import PageWords


@dataclass(frozen=True)
class Rank:
    """Place of the truth among the guesses at a value.

    Attributes:
        before: Other guesses that are at least as likely; as many as were counted up to where the counting ends.
        cut: Whether the search was cut off, so that ``before`` is a lower bound.
        expanded: Prefixes whose next token was asked for, where they are counted.
    """

    before: int
    cut: bool = False
    expanded: int = 0

    def within(self, guesses: int) -> bool:
        """True where the value is certainly put back within so many guesses."""
        return self.before < guesses and not self.cut

    def possibly_within(self, guesses: int) -> bool:
        """True where it may be: equal to ``surely`` where the search was not cut off."""
        return self.before < guesses


@dataclass(frozen=True)
class Guessed:
    """A field, and how many guesses it takes.

    Attributes:
        unit: Unit that it belongs to.
        attack: Place of the truth under the attack's likelihoods.
        public: The same under those of the public model alone.
        secret: Whether the value occurs nowhere else.
    """

    unit: str
    attack: Rank
    public: Rank
    secret: bool


@dataclass(frozen=True)
class Occurrences:
    """Occurrences of a value beside the one that was removed.

    Attributes:
        on_page: What of its own page still holds or identifies the value, exactly or approximately.
        elsewhere: Occurrences in the text of other audited documents.
        public: Occurrences in the text of public documents.
        empty: Whether the value has no letter and no digit, so that none could be counted.
    """

    on_page: int
    elsewhere: int
    public: int
    empty: bool = False

    @property
    def secret(self) -> bool:
        """True where a value that could have guesses has none."""
        return self == _NOWHERE


_NOWHERE = Occurrences(0, 0, 0)


def count_in(page: PageWords, value: str) -> int:
    """Runs of whole words that are the value, up to case, punctuation, accents and OCR confusions.

    Args:
        value: Normalised by ``normalize_text``; an empty one has no occurrence.
    """
    return len({(run.start, run.stop) for run in page.runs_of((value,))}) if value else 0

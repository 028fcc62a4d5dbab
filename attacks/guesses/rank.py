"""Place of the truth among the guesses at a value."""

from __future__ import annotations

from dataclasses import dataclass


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
        """Whether the value is certainly put back within so many guesses."""
        return self.before < guesses and not self.cut

    def possibly_within(self, guesses: int) -> bool:
        """Whether it may be; the same where the search was not cut off."""
        return self.before < guesses

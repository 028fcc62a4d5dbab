"""Shares as natural frequencies, for sentences without technical terms."""

from __future__ import annotations

from typing import Final

HUNDRED: Final = 100
_FEWEST: Final = 20
"""Cases from which a share is put as a count of 100; of fewer the count itself is given."""


def out_of(share: float, n: int | None, nouns: str, noun: str | None = None) -> tuple[str, str]:
    """A share as "of 100 companies" and "79".

    Args:
        share: From 0 to 1.
        n: Cases behind it, or None where that is not known.
        nouns: The cases, in the plural.
        noun: One case; needed where there may be a single one.
    """
    if n is not None and n < _FEWEST:
        return f"of {n} {noun or nouns if n == 1 else nouns}", str(round(share * n))
    return f"of {HUNDRED} {nouns}", hundredths(share)


def hundredths(share: float) -> str:
    """A share as a count of 100; what would be rounded to none or all, and is not, is said so."""
    count = round(HUNDRED * share)
    if count == 0 and share > 0:
        return "fewer than 1"
    if count == HUNDRED and share < 1:
        return "more than 99"
    return str(count)

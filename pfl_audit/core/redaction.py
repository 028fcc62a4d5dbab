"""Nothing personal by accident: names become pseudonyms, values a mask that is the same for all of their kind."""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice

_MASK = "•" * 8
_STEPS = (0, 1, 2, 5)
_RANGES = ("0", "1", "2 to 4", "5 or more")
_MARKS = 4
"""Combining marks on one letter; no script that is written today needs more."""


class Redactor:
    """Turns what must not leave the machine into what may.

    Args:
        salt: Random, of the run; without it a guessed name cannot be tested.
        reveal: Leave everything as it is.
    """

    def __init__(self, salt: str, *, reveal: bool = False) -> None:
        self._salt = salt.encode()
        self.reveal = reveal

    def within(self, scope: str) -> Redactor:
        """The same with pseudonyms of its own, so that what several checks say of a company cannot be put together."""
        return Redactor(self.order(scope), reveal=self.reveal)

    def name(self, name: str, kind: str = "provider") -> str:
        """A provider's pseudonym, or that of another kind of unit, the same throughout the run."""
        return visible(name) if self.reveal else f"{kind} {self.order(name)[:8]}"

    def page(self, page: str) -> str:
        """A page's pseudonym."""
        return visible(page) if self.reveal else f"page {self.order(page)[:8]}"

    def value(self, text: str, key: str = "value") -> str:
        """A mask that shows of what kind a value is, and neither length nor shape.

        Args:
            text: The value.
            key: What it was asked for as, such as ``provider_name``.
        """
        return visible(text) if self.reveal else f"{_MASK} ({key.removeprefix('provider_').replace('_', ' ')})"

    def count(self, number: int) -> int | str:
        """A number that belongs to one company, page or value: exact numbers identify these, coarse ranges do not."""
        return number if self.reveal else _RANGES[bisect_right(_STEPS, number) - 1]

    def part(self, number: int, of: int) -> str:
        """How many of the words or tokens of one text: without their number, which is its length."""
        if self.reveal:
            return f"{number} of {of}"
        return "none" if number <= 0 else "all" if number >= of else "most" if 2 * number >= of else "some"

    def share(self, value: float | None) -> float | str | None:
        """A number from 0 to 1 that belongs to one page, in tenths."""
        if value is None or self.reveal:
            return None if value is None else round(value, 3)
        low = min(9, int(10 * value))
        return f"{low / 10:.1f} to {(low + 1) / 10:.1f}"

    def order(self, text: str) -> str:
        """A key to sort names by that says nothing about them."""
        return hmac.new(self._salt, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def visible(text: str, limit: int = 200) -> str:
    """Hostile text as one line that a terminal and a page can show: no control characters, no flood.

    Of marks that combine with a letter, which pile up over the lines above and below, the first few are kept.
    """
    line = text if text.isascii() and text.isprintable() else "".join(islice(_shown(text), limit + 1))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _shown(text: str) -> Iterator[str]:
    marks = 0
    for letter in text:
        category = unicodedata.category(letter)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if marks <= _MARKS:
            yield " " if category in ("Cc", "Cf", "Zl", "Zp", "Cs") or _is_no_character(letter) else letter


def _is_no_character(letter: str) -> bool:
    """Whether a code point is none that text may hold, so that XML and YAML refuse it."""
    code = ord(letter)
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF

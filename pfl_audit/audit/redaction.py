"""Nothing personal by accident: names become pseudonyms, values become their shape."""

from __future__ import annotations

import hashlib
import hmac
import unicodedata

_MASK = "•"


class Redactor:
    """Turns what must not leave the machine into what may.

    Args:
        salt: Random, of the response store; without it nobody can test a guessed name.
        reveal: Leave everything as it is.
    """

    def __init__(self, salt: str, *, reveal: bool = False) -> None:
        self._salt = salt.encode()
        self.reveal = reveal

    def name(self, name: str) -> str:
        """A provider's pseudonym, the same throughout the run."""
        return visible(name) if self.reveal else f"provider {self._digest(name)}"

    def page(self, page: str) -> str:
        """A page's pseudonym."""
        return visible(page) if self.reveal else f"page {self._digest(page)}"

    def value(self, text: str) -> str:
        """A value's shape: every letter and digit is masked, the rest shows what kind of value it is."""
        text = visible(text)
        return text if self.reveal else "".join(_MASK if letter.isalnum() else letter for letter in text)

    def _digest(self, text: str) -> str:
        return hmac.new(self._salt, text.encode(), hashlib.sha256).hexdigest()[:8]


def visible(text: str, limit: int = 200) -> str:
    """Hostile text as one line that a terminal and a page can show: no control characters, no flood."""
    line = "".join(" " if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp", "Cs") else letter for letter in text)
    return line if len(line) <= limit else line[: limit - 1] + "…"

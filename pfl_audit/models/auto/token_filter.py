"""Text of a document without the special tokens that it spells."""

from __future__ import annotations

import re
from collections.abc import Iterable


class TokenFilter:
    """Removes the spelling of special tokens, such as ``<image>``, from text of a document.

    Args:
        tokens: Texts of the special tokens.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        spelled = sorted({token for token in tokens if token.strip()}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, spelled))) if spelled else None

    def __call__(self, text: str) -> str:
        """The text with a space for each special token that it spells; removing one never spells another."""
        return self._pattern.sub(" ", text) if self._pattern else text

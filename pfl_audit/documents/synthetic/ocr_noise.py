"""Simulated OCR errors."""

from __future__ import annotations

import numpy as np

_LOOKALIKES = {"0": "O", "O": "0", "1": "l", "l": "1", "5": "S", "S": "5", "8": "B", "B": "8", "i": "l", "m": "rn"}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def add_ocr_errors(words: list[str], share: float, rng: np.random.Generator) -> list[str]:
    """Misread a share of the words by one character each.

    Args:
        share: Share of words that are misread, 0 to 1.

    Returns:
        The words with errors, none of them empty.
    """
    hit = rng.random(len(words)) < share
    return [_misread(word, rng) if wrong else word for word, wrong in zip(words, hit, strict=True)]


def _misread(word: str, rng: np.random.Generator) -> str:
    at = int(rng.integers(len(word)))
    seen = _LOOKALIKES.get(word[at], _LETTERS[int(rng.integers(len(_LETTERS)))])
    if len(word) > 3 and rng.random() < 0.3:
        seen = ""
    return word[:at] + seen + word[at + 1 :]

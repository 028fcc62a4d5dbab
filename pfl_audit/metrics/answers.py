"""Scores of answers: accuracy and ANLS."""

from __future__ import annotations

from collections.abc import Sequence

try:
    from Levenshtein import distance
except ImportError:  # its licence is GPL-2.0-or-later; who does without it gets equal numbers
    from rapidfuzz.distance.Levenshtein import distance  # type: ignore[assignment]

ANLS_THRESHOLD = 0.5
"""Similarities below this count as 0 (Biten et al., ICDAR 2019)."""


def accuracy(answer: str, accepted: Sequence[str]) -> float:
    """1.0 where the answer equals an accepted one after lower-casing and stripping, else 0.0.

    The answer ``none`` and an empty answer are never right, as in the reference evaluation.
    """
    given = _normal(answer)
    return float(given not in ("", "none") and any(given == _normal(right) for right in accepted))


def similarity(answer: str, accepted: Sequence[str]) -> float:
    """Normalised Levenshtein similarity to the nearest accepted answer, 0 to 1."""
    given = _normal(answer)
    if given in ("", "none"):
        return 0.0
    rights = [_normal(right) for right in accepted]
    return max((1.0 - distance(given, right) / max(len(given), len(right)) for right in rights), default=0.0)


def anls(answer: str, accepted: Sequence[str]) -> float:
    """Average normalised Levenshtein similarity of one answer: ``similarity``, or 0 below the threshold.

    Source: privacy-aware-docvqa, section 4.1 (its NLS).
    """
    value = similarity(answer, accepted)
    return value if value >= ANLS_THRESHOLD else 0.0


def _normal(text: str) -> str:
    return text.strip().lower()

"""Removal of a value from a page: from its OCR words and from its image."""

from typing import Final

THRESHOLD: Final = 0.8
"""Smallest normalised Levenshtein similarity at which a run of words counts as the value."""

"""Remedies that several attacks name, worded once, so that a report lists each once."""

from __future__ import annotations

from typing import Final

NO_SCORES: Final = "Return answers alone: no confidences and no losses to callers who need none."
ONLY_FROM_THE_PAGE: Final = "Let the application return a value only where it is on the page."
NO_DUPLICATES: Final = "Remove near-duplicate pages from the training data."


def private_training(units: str) -> str:
    """Training with differential privacy, which bounds every attack on the finished model.

    Args:
        units: What is protected, in the plural.
    """
    how = " (train --mode fl-dp)" if units == "providers" else ""  # the unit that train protects
    return f"Train with differential privacy for {units}{how}: it bounds every attack on the model."

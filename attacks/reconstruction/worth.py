"""Whether models have learnt enough for an attack on them to say anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LEAST: Final = 0.2
"""Validation accuracy (F1 of fields or links, or share of hidden tokens) below which nothing found says little."""
_SAYS: Final = (
    ("public model", "it names the wrong candidates"),
    ("target", "what it has not learnt it cannot give away"),
)


def learnt_little(training: tuple[Mapping[str, object], Mapping[str, object]]) -> str:
    """A sentence a model that has learnt little, by the accuracy that its training record states; else nothing.

    Args:
        training: Records of the public model and of the target.
    """
    said = ""
    for record, (who, why) in zip(training, _SAYS, strict=True):
        accuracy = record.get("accuracy")
        if isinstance(accuracy, float) and accuracy < LEAST:
            said += f" The {who} has a validation accuracy of {accuracy:.2f}: {why}."
    return said

"""Names of a head's classes: BIO tags, and the initial tokens of SPADE."""

from __future__ import annotations

from collections.abc import Sequence

OUTSIDE = "O"
"""Class of tokens outside of fields, or (SPADE) of tokens that begin no field."""


def bio_tags(labels: Sequence[str]) -> tuple[str, ...]:
    """``O``, then ``B-x`` and ``I-x`` of every label."""
    return (OUTSIDE, *(f"{part}-{label}" for label in labels for part in "BI"))


def spade_tags(labels: Sequence[str]) -> tuple[str, ...]:
    """``O``, then every label: of which field a token is the first (BROS, section 4.2)."""
    return (OUTSIDE, *labels)


def labels_of_tags(tags: Sequence[str], task: str) -> tuple[str, ...]:
    """The field labels behind a head's classes, in the order of their first appearance.

    Raises:
        ValueError: A class that is none of the scheme.
    """
    labels: dict[str, None] = {}
    for tag in tags:
        if tag == OUTSIDE:
            continue
        if task == "ee-bio":
            part, _, tag = str(tag).partition("-")  # noqa: PLW2901 - the label is what is left
            if part not in ("B", "I") or not tag:
                raise ValueError("id2label has classes that are no BIO tags (O, B-x, I-x)")
        labels[tag] = None
    return tuple(labels)

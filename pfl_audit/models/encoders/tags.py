"""Names of a head's classes: tags of the schemes BIO, BIOES (BILOU) and IO, and the initial tokens of SPADE."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pfl_audit.models.field_keys import normal_key

OUTSIDE = "O"
"""Class of tokens outside of fields, or (SPADE) of tokens that begin no field."""
_OTHER_NAMES = ("o", "others", "other", "outside")
"""Names of that class in lower case, where no class is called ``O``; the BROS release has ``others``."""
_TAG = re.compile(r"([BIESLU])[-_](.+)", re.DOTALL)
_FIRST_OR_INSIDE = re.compile(r"[BI][-_](?=.)", re.DOTALL)


def bio_tags(labels: Sequence[str]) -> tuple[str, ...]:
    """``O``, then ``B-x`` and ``I-x`` of every label."""
    return (OUTSIDE, *(f"{part}-{label}" for label in labels for part in "BI"))


def spade_tags(labels: Sequence[str]) -> tuple[str, ...]:
    """``O``, then every label: of which field a token is the first (BROS, section 4.2)."""
    return (OUTSIDE, *labels)


def outside_tag(tags: Sequence[str]) -> str:
    """The class of tokens outside of fields.

    Raises:
        ValueError: There is none.
    """
    if OUTSIDE in tags:
        return OUTSIDE
    for name in _OTHER_NAMES:
        for tag in tags:
            if tag.casefold() == name:
                return tag
    raise ValueError("id2label has no class O for tokens outside of fields (name its classes O, B-x, I-x)")


def tag_parts(tags: Sequence[str], task: str) -> tuple[tuple[str, str], ...]:
    """Prefix and field label of each class.

    Prefixes are read if every class but that of tokens outside of fields has one: B (first), I (inside), E or L
    (last), S or U (alone). Without them (IO), and with SPADE, a class is the label itself, and its prefix is empty.

    Returns:
        As many pairs as tags; two empty texts for the class of tokens outside of fields.

    Raises:
        ValueError: Some classes begin with ``B-`` and others have no prefix, or there is no class for tokens outside
            of fields.
    """
    outside = outside_tag(tags)
    matches = [_TAG.fullmatch(tag) if task == "ee-bio" and tag != outside else None for tag in tags]
    without = [tag for tag, match in zip(tags, matches, strict=True) if match is None and tag != outside]
    if without and any(match is not None and match[1] == "B" for match in matches):
        raise ValueError("id2label has classes with a prefix (B-x) and classes without one")
    return tuple(
        ("", "") if tag == outside else (match[1], match[2]) if match is not None and not without else ("", tag)
        for tag, match in zip(tags, matches, strict=True)
    )


def labels_of_tags(tags: Sequence[str], task: str) -> tuple[str, ...]:
    """The field labels behind a head's classes, in the order of their first appearance.

    Raises:
        ValueError: As tag_parts.
    """
    return tuple(dict.fromkeys(label for _, label in tag_parts(tags, task) if label))


def field_parts(own: Collection[str], words: Sequence[int]) -> list[str]:
    """Prefix of each token of a field, by words: every token of the last word ends a field.

    A field of one word is alone (S or U) with all of its tokens. Where a scheme lacks a prefix, the next best of its
    own is taken, so that the tokens of BIO are B, I, I, and those of IO all I.

    Args:
        own: Prefixes that the label has, at least one.
        words: Index of each token's word, ascending.
    """
    alone = words[0] == words[-1]
    wanted = ["SUBIEL" if alone else "BISUEL"]
    wanted += ["SUIELB" if alone else "ELIBSU" if word == words[-1] else "IBELSU" for word in words[1:]]
    return [next((part for part in order if part in own), "") for order in wanted]


def plain_label(label: str) -> str:
    """A label for comparison: without case and a prefix ``B-`` or ``I-``; blanks, hyphens and ``_`` are the same."""
    return normal_key(_FIRST_OR_INSIDE.sub("", label, count=1) if _FIRST_OR_INSIDE.match(label) else label)

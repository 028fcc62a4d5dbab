"""``fields.json``: where the private fields of a template are.

Either a list of fields, or an object with ``fields`` and, where it is known, the printed ``words``::

    {"fields": [{"label": "Name:", "box": [92, 40, 214, 56]}], "words": [{"text": "Name:", "box": [10, 42, 44, 54]}]}

A box is left, top, right, bottom: shares of the page if no coordinate in the file is above 1, pixels otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from pfl_audit.attacks.inversion.template.find import overlap
from pfl_audit.documents.document import Boxes, as_boxes
from pfl_audit.documents.images import Box
from pfl_audit.errors import AuditError
from pfl_audit.inputs import MIB, read_json

MAX_FILE = 16 * MIB
MAX_FIELDS = 500
MAX_WORDS = 20_000
MAX_TEXT = 200
"""Letters of a label or a word."""
MIN_PIXELS = 4
"""Shortest side of a field."""


@dataclass(frozen=True, eq=False)
class FieldsFile:
    """What the file says.

    Attributes:
        labels: One a field; may be empty.
        boxes: One a field, shares of the page that fall on whole pixels.
        word_boxes: float32 (words, 4), shares of the page.
    """

    labels: tuple[str, ...]
    boxes: tuple[Box, ...]
    words: tuple[str, ...]
    word_boxes: Boxes


def read_fields(path: Path, size: tuple[int, int]) -> FieldsFile:
    """Read ``fields.json``.

    Args:
        size: Width and height of the template in pixels.

    Raises:
        AuditError: It cannot be read, is not laid out as above, or a field lies outside the page, is empty, or
            overlaps another.
    """
    content = read_json(path, limit=MAX_FILE)
    whole: Mapping[str, object] = content if isinstance(content, Mapping) else {"fields": content}
    fields = _entries(path, whole, "field", MAX_FIELDS)
    words = _entries(path, whole, "word", MAX_WORDS)
    if not fields:
        raise AuditError(f"{path} names no field", "List at least one, as {label, box}")
    coordinates = [value for _, box in fields + words for value in box]
    scale = (1, 1) if max(coordinates) > 1 else size
    boxes = tuple(_on_page(path, number, box, scale, size) for number, (_, box) in enumerate(fields, start=1))
    for (first, one), (second, other) in combinations(enumerate(boxes, start=1), 2):
        if overlap(one, other):
            raise AuditError(f"{path}: fields {first} and {second} overlap", "Correct one of their boxes")
    word_boxes = _word_boxes(path, words, scale, size)
    return FieldsFile(tuple(label for label, _ in fields), boxes, tuple(text for text, _ in words), word_boxes)


def read_words(path: Path, size: tuple[int, int]) -> tuple[tuple[str, ...], Boxes]:
    """Read the words of a page: ``{"words": [{"text": ..., "box": [...]}]}``, as above.

    Args:
        size: Width and height of the page in pixels.

    Raises:
        AuditError: It cannot be read, is not laid out so, or a word lies outside the page.
    """
    content = read_json(path, limit=MAX_FILE)
    whole: Mapping[str, object] = content if isinstance(content, Mapping) else {"words": content}
    words = _entries(path, whole, "word", MAX_WORDS)
    if not words:
        raise AuditError(f"{path} names no word", "List the words as {text, box}, or leave --words out")
    scale = (1, 1) if max(value for _, box in words for value in box) > 1 else size
    return tuple(text for text, _ in words), _word_boxes(path, words, scale, size)


def _word_boxes(path: Path, words: Sequence[tuple[str, Box]], scale: tuple[int, int], size: tuple[int, int]) -> Boxes:
    shares = [[value * scale[at % 2] / size[at % 2] for at, value in enumerate(box)] for _, box in words]
    try:
        return as_boxes(shares, len(words))
    except ValueError as error:
        raise AuditError(f"{path}: a word lies outside the page", "Correct its box, or leave the words out") from error


def _entries(path: Path, whole: Mapping[str, object], kind: str, most: int) -> list[tuple[str, Box]]:
    """The (text, box) of every field or word, as the file has them."""
    found = whole.get(f"{kind}s", [])
    if not isinstance(found, list):
        raise AuditError(f"{path} holds no list of {kind}s", f"Write the {kind}s as a list of objects with a box")
    if len(found) > most:
        raise AuditError(f"{path} holds more than {most:,} {kind}s", "Check that it is the right file")
    key = "label" if kind == "field" else "text"
    entries = []
    for number, entry in enumerate(found, start=1):
        text = entry.get(key, "") if isinstance(entry, Mapping) else None
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            raise AuditError(
                f"{path}: {kind} {number} is not an object with a {key} of at most {MAX_TEXT} letters", "Correct it"
            )
        box = tuple(_numbers(entry.get("box")))
        if len(box) != 4:
            raise AuditError(f"{path}: {kind} {number} has no box of four numbers", "Give left, top, right, bottom")
        line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
        if line or kind == "field":
            entries.append((line, (box[0], box[1], box[2], box[3])))
    return entries


def _numbers(value: object) -> Iterator[float]:
    """The finite numbers of a list of at most four."""
    for one in value if isinstance(value, list) and len(value) <= 4 else ():
        if isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < 1e9 and math.isfinite(one):
            yield float(one)


def _on_page(path: Path, number: int, box: Box, scale: tuple[int, int], size: tuple[int, int]) -> Box:
    """The box in shares that fall on whole pixels."""
    left, top, right, bottom = (round(value * scale[at % 2]) for at, value in enumerate(box))
    unit = "read as pixels" if scale == (1, 1) else "read as shares of the page"
    if left < 0 or top < 0 or right > size[0] or bottom > size[1]:
        raise AuditError(
            f"{path}: field {number} lies outside the page of {size[0]} x {size[1]} pixels ({unit})",
            "Correct its box, or give the template that it belongs to",
        )
    if right - left < MIN_PIXELS or bottom - top < MIN_PIXELS:
        raise AuditError(
            f"{path}: field {number} is empty or below {MIN_PIXELS} pixels on a side ({unit})", "Correct its box"
        )
    return left / size[0], top / size[1], right / size[0], bottom / size[1]

"""Lines that OCR reads in a page image, and those that contain a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pfl_audit.documents.document import Document
from pfl_audit.documents.images import Box
from pfl_audit.documents.scrubbing.scrub import THRESHOLD, contains_value, find_value


@dataclass(frozen=True)
class OcrLine:
    """A line of text in an image.

    Attributes:
        text: OCR text of the line.
        box: Left, top, right, bottom as shares of the page.
    """

    text: str
    box: Box


ReadOcrLines = Callable[[Sequence[Document]], Mapping[str, Sequence[OcrLine]]]
"""Reads the images of pages: returns page id to lines; pages that cannot be read are left out."""


def value_boxes(lines: Sequence[OcrLine], value: str, threshold: float = THRESHOLD) -> tuple[Box, ...]:
    """Boxes of the lines that contain the value or a word that identifies it.

    Args:
        lines: Lines of an image, in reading order.
        value: Value to find; it may span several lines.
    """
    words = [(word, line.box) for line in lines for word in line.text.split()]
    hits = find_value(tuple(word for word, _ in words), value, threshold)
    return tuple(dict.fromkeys(words[index][1] for index in sorted(hits)))


def shows_value(lines: Sequence[OcrLine], value: str, threshold: float = THRESHOLD) -> bool:
    """Whether the lines contain the value itself."""
    return contains_value(tuple(word for line in lines for word in line.text.split()), value, threshold)

"""Lines that OCR reads in a page's picture, and those of them that must be blurred for a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pfl_audit.documents.document import Document
from pfl_audit.documents.images import Box
from pfl_audit.documents.scrub import THRESHOLD, find_value, is_written_out


@dataclass(frozen=True)
class PictureLine:
    """A line of text in a picture.

    Attributes:
        text: As read.
        box: Left, top, right, bottom as shares of the page.
    """

    text: str
    box: Box


ReadLines = Callable[[Sequence[Document]], Mapping[str, Sequence[PictureLine]]]
"""Reads pictures: pages to the lines of each, by the page's id; pages that cannot be read are left out."""


def boxes_of_value(lines: Sequence[PictureLine], value: str, threshold: float = THRESHOLD) -> tuple[Box, ...]:
    """Boxes of the lines in which the value, or something that points to it, can be read.

    Args:
        lines: Of a picture, in reading order.
        value: What must go; it may be spread over several lines.
        threshold: As in ``scrub``.
    """
    words = [(word, line.box) for line in lines for word in line.text.split()]
    hits = find_value(tuple(word for word, _ in words), value, threshold)
    return tuple(dict.fromkeys(words[index][1] for index in sorted(hits)))


def shows(lines: Sequence[PictureLine], value: str, threshold: float = THRESHOLD) -> bool:
    """Whether a picture writes the value itself."""
    return is_written_out(tuple(word for line in lines for word in line.text.split()), value, threshold)

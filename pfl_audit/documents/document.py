"""What everything else is about: a page, and a question about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pfl_audit.documents.images import PageImage
from pfl_audit.documents.record_validation import RecordError
from pfl_audit.files import sha256_json

Boxes = NDArray[np.float32]


class Membership(StrEnum):
    """Whether a provider's documents were in the training set of the model under audit."""

    MEMBER = "member"
    NON_MEMBER = "non_member"
    UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class Document:
    """One page.

    Attributes:
        id: The page's name: document id, underscore, page number. Unique in a corpus.
        provider: Name of the company that issued the document; free text.
        words: OCR words in reading order, as read (not lower-cased).
        boxes: float32, shape (words, 4): left, top, right, bottom as shares of the page, 0 to 1.
        image: The page image, or None where there is none.
        split: The part of the data set that it stands in, such as ``red_test_positive``.
        client: Number of the federated client that holds it, or None.
    """

    id: str
    provider: str
    words: tuple[str, ...]
    boxes: Boxes
    image: PageImage | None = None
    split: str = ""
    client: int | None = None

    @property
    def file(self) -> str:
        """Identifier of the document that the page belongs to (the page name without its number)."""
        return self.id.rsplit("_", 1)[0]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what a model sees of the page: words, boxes and pixels. Not of its name."""
        boxes = np.ascontiguousarray(self.boxes, dtype="<f4")
        image = self.image.digest if self.image is not None else None
        return sha256_json([list(self.words), boxes.tobytes().hex(), image])


@dataclass(frozen=True, eq=False)
class Query:
    """A question about a page, with what counts as a right answer.

    Attributes:
        id: Unique in a corpus.
        document: The page that is asked about.
        question: The question as it is put to the model.
        answers: Accepted answers, at least one; the first is the one that losses refer to.
        key: What is asked for (``provider_name``, ``tax_number``, ...), or ``other``.
    """

    id: str
    document: Document
    question: str
    answers: tuple[str, ...] = field(default=())
    key: str = "other"


def as_boxes(values: ArrayLike | Sequence[Sequence[float]], words: int) -> Boxes:
    """Bring boxes into the form that a Document holds.

    Args:
        values: One (left, top, right, bottom) a word, as shares of the page; may be empty.
        words: How many boxes there must be.

    Returns:
        float32 of shape (words, 4), clipped to 0..1, corners in order.

    Raises:
        RecordError: The number of boxes is not ``words``, a box has not four numbers, a number is
            not finite, or the values are plainly pixels (above 1.5).
    """
    try:
        with np.errstate(over="ignore"):  # what exceeds float32 becomes infinite, and is refused below
            boxes = np.asarray(values, dtype=np.float32).reshape(-1, 4) if words else np.zeros((0, 4), np.float32)
    except (TypeError, ValueError, OverflowError) as error:  # whose text may quote a value
        raise RecordError("the box of a word is not four numbers") from error
    if len(boxes) != words:
        raise RecordError(f"{words} words but {len(boxes)} boxes")
    if not np.isfinite(boxes).all():
        raise RecordError("a box coordinate is not a finite number")
    if boxes.size and boxes.max() > 1.5:
        raise RecordError("boxes are not shares of the page (a coordinate is above 1)")
    low = np.minimum(boxes[:, :2], boxes[:, 2:])
    high = np.maximum(boxes[:, :2], boxes[:, 2:])
    return np.asarray(np.clip(np.concatenate([low, high], axis=1), 0.0, 1.0), dtype=np.float32)

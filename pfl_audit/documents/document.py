"""Documents and queries: a page, and a question about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pfl_audit.documents.images import PageImage
from pfl_audit.documents.page_ink import printed_words
from pfl_audit.documents.record_validation import RecordError
from pfl_audit.files import sha256_json
from pfl_audit.metrics.arrays import Bools

Boxes = NDArray[np.float32]


class Membership(StrEnum):
    """Whether documents of a unit of privacy were in the training set of the model under audit."""

    MEMBER = "member"
    NON_MEMBER = "non_member"
    UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class Document:
    """One page.

    Attributes:
        id: Document id, underscore, page number; unique in a corpus.
        provider: Name of the company that issued the document.
        words: OCR words in reading order, not lower-cased.
        boxes: float32, shape (words, 4): left, top, right, bottom as shares of the page, 0 to 1.
        image: Page image, or None.
        split: Split of the data set, such as ``red_test_positive``.
        client: Index of the federated client that holds the page, or None.
        source: Name of the source of a corpus that was made of several, or an empty string.
        person: Name of the person whom the document concerns, or an empty string.
        group: Name of the group that its unit belongs to (client, vendor, corporate group), or an empty string.
        unit_name: Name of the unit of privacy that it belongs to, in an audit by another unit than the provider.
    """

    id: str
    provider: str
    words: tuple[str, ...]
    boxes: Boxes
    image: PageImage | None = None
    split: str = ""
    client: int | None = None
    source: str = ""
    person: str = ""
    group: str = ""
    unit_name: str | None = None

    @property
    def unit(self) -> str:
        """Name of the unit of privacy that it belongs to: its provider, unless it is grouped by another."""
        return self.provider if self.unit_name is None else self.unit_name

    @property
    def file(self) -> str:
        """Id of the document that the page belongs to (the page id without its number)."""
        return self.id.rsplit("_", 1)[0]

    @cached_property
    def printed(self) -> Bools | None:
        """Words that its picture shows where their boxes are, bool (words,); None where it says nothing of them."""
        return printed_words(self.image, self.boxes) if self.image is not None and self.words else None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the input of a model: words, boxes and image. The name does not count."""
        boxes = np.ascontiguousarray(self.boxes, dtype="<f4")
        image = self.image.digest if self.image is not None else None
        return sha256_json([list(self.words), boxes.tobytes().hex(), image])


@dataclass(frozen=True, eq=False)
class Query:
    """A question about a page, with its accepted answers.

    Attributes:
        id: Unique in a corpus.
        document: Page that the question is about.
        question: Question as given to the model.
        answers: Accepted answers, at least one; losses refer to the first.
        key: Key that is asked for (``provider_name``, ``tax_number``, ...), or ``other``.
    """

    id: str
    document: Document
    question: str
    answers: tuple[str, ...] = field(default=())
    key: str = "other"


def as_boxes(values: ArrayLike | Sequence[Sequence[float]], words: int) -> Boxes:
    """Convert boxes to the array of a Document.

    Args:
        values: One (left, top, right, bottom) per word, as shares of the page; may be empty.

    Returns:
        float32 of shape (words, 4), clipped to 0..1, with ordered corners.

    Raises:
        RecordError: The number of boxes is not ``words``, a box does not have four numbers, a number is
            not finite, or values are pixels (above 1.5).
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

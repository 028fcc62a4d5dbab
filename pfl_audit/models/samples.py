"""Training samples of a client, as people and as networks have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from pfl_audit.documents.document import Boxes, as_boxes

Text = Mapping[str, Tensor]
"""All inputs of the network except the pixels, for one sample: question, answer, words and boxes, as tensors by the
network's own names for them, without a batch dimension."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Training sample of a client, but for its pixels.

    Attributes:
        words: Words on the page in reading order, for models that take them.
        boxes: float32 (words, 4), boxes of the words as shares of the page.
    """

    question: str
    answer: str
    words: tuple[str, ...] = ()
    boxes: Boxes = field(default_factory=lambda: as_boxes([], 0))

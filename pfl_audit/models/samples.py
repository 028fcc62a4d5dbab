"""Training samples of a client, as people and as networks have them, and the losses of their tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from pfl_audit.documents.document import Boxes, as_boxes
from pfl_audit.errors import AuditError
from pfl_audit.models.protocol import Score

IGNORED: Final = -100
"""Label of a token that no loss counts, as torch's cross-entropy has it."""
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


def mean_losses(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of each sample's labelled tokens, and their number, both of shape (samples,).

    Args:
        logits: (samples, tokens, classes).
        labels: int64 (samples, tokens), IGNORED where a token has none.
    """
    losses = functional.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
    tokens = (labels != IGNORED).sum(dim=1)
    return losses.sum(dim=1) / tokens, tokens


def as_scores(losses: Tensor, tokens: Tensor) -> list[Score]:
    """Scores of ``mean_losses``.

    Raises:
        AuditError: A loss is not finite.
    """
    require_finite_losses(bool(torch.isfinite(losses).all()))
    return [Score(loss, count) for loss, count in zip(losses.tolist(), tokens.tolist(), strict=True)]


def require_finite_losses(finite: bool) -> None:
    """Raise AuditError where a model computes losses that are not finite."""
    if not finite:
        raise AuditError("the model computes NaN or infinite losses", "Check how it was exported")

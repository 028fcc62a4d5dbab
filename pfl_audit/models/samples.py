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


def token_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of every token, (samples, tokens); 0 where a token has no label.

    Args:
        logits: (samples, tokens, classes).
        labels: int64 (samples, tokens), IGNORED where a token has none.
    """
    return functional.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")


def mean_losses(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of each sample's labelled tokens, and their number, both of shape (samples,)."""
    tokens = (labels != IGNORED).sum(dim=1)
    return token_losses(logits, labels).sum(dim=1) / tokens, tokens


def as_scores(logits: Tensor, labels: Tensor) -> list[Score]:
    """Scores of samples, with the losses of their tokens.

    Raises:
        AuditError: A loss is not finite.
    """
    losses, has = token_losses(logits, labels), labels != IGNORED
    means = losses.sum(dim=1) / has.sum(dim=1)
    require_finite_losses(bool(torch.isfinite(means).all()))
    rows = zip(means.tolist(), losses.float().cpu(), has.cpu(), strict=True)
    return [Score(mean, int(kept.sum()), tuple(each[kept].tolist())) for mean, each, kept in rows]


def require_finite_losses(finite: bool) -> None:
    """Raise AuditError where a model computes losses that are not finite."""
    if not finite:
        raise AuditError("the model computes NaN or infinite losses", "Check how it was exported")

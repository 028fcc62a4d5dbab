"""Which epoch's model is kept: the two criteria of the paper (CDMI, section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

Criterion = Literal["precision", "loss"]
CRITERIA: Final[tuple[Criterion, ...]] = ("precision", "loss")


def best_epoch(history: Sequence[Mapping[str, float]], criterion: Criterion) -> int:
    """Index of the epoch with the best validation accuracy, or with the lowest validation loss.

    Among epochs of the same accuracy it is the one with the lower loss, and else the earlier: a model that finds
    nothing yet scores 0 for many epochs, and its first is chance.

    Args:
        history: One entry an epoch, with ``accuracy`` and ``validation_loss``, both finite; not empty.
        criterion: ``precision`` or ``loss``.
    """

    def rank(index: int) -> tuple[float, ...]:
        loss = history[index]["validation_loss"]
        return (loss,) if criterion == "loss" else (-history[index]["accuracy"], loss)

    return min(range(len(history)), key=rank)

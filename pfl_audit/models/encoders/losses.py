"""Loss and correct predictions of each window."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from pfl_audit.models.samples import IGNORED


def window_means(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of each window's labelled tokens, not averaged over the windows (CDMI, section 4.2, step 2).

    Args:
        logits: Float (m, classes), of the labelled tokens alone, in the order of ``labels``.
        labels: int64 (b, n), m of them not IGNORED.

    Returns:
        float32 (b,); 0 for a window without a labelled token.
    """
    chosen = labels != IGNORED
    losses = functional.cross_entropy(logits.float(), labels[chosen], reduction="none")
    sums = losses.new_zeros(len(labels)).index_add(0, chosen.nonzero()[:, 0], losses)
    return sums / chosen.sum(dim=1).clamp(min=1)


def window_hits(logits: Tensor, labels: Tensor, nothing: int | None) -> Tensor:
    """Number of correct predictions and of counted tokens in each window.

    Args:
        nothing: The class of tokens about which there is nothing to say. A token counts where this is neither
            its class nor what was said, so that saying nothing anywhere is worth nothing. None: all count.

    Returns:
        int64 (b, 2).
    """
    chosen = labels != IGNORED
    truth, said = labels[chosen], logits.argmax(dim=-1)
    counts = torch.ones_like(truth, dtype=torch.bool) if nothing is None else (truth != nothing) | (said != nothing)
    hits = torch.stack([(truth == said) & counts, counts], dim=1).long()
    return hits.new_zeros(len(labels), 2).index_add(0, chosen.nonzero()[:, 0], hits)

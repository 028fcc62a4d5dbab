"""Word embeddings tied to the output layer, as in masked language models.

Their gradient is dL/dW = sum_t onehot(token_t) s_t + sum_m delta_m h_m^T with one state h_m a masked word: the
second sum fills every row, and lies in as few dimensions as there are masked words. Most words stand nowhere on the
page, so a few rows drawn at random hold nothing else and span those dimensions, and what is orthogonal to them is
as without an output layer. Of several draws the one with the fewest dimensions counts.
"""

from __future__ import annotations

import torch
from torch import Tensor

_DRAWS = 20
_SMALL = 1e-5
"""Shares of a norm below this are rounding (float32)."""
_MANY = 2048


def output_states(word: Tensor) -> Tensor | None:
    """An orthonormal basis of what the output layer adds to a word table's gradient.

    Args:
        word: (vocabulary, width).

    Returns:
        float64 (dimensions, width), or None where most rows are zero, or where no half of the width holds most of
        them, as under noise.
    """
    rng = torch.Generator().manual_seed(0)
    rows = word[torch.randperm(len(word), generator=rng)[:_MANY]].double()
    rows = rows[rows.any(dim=1)]
    if 2 * len(rows) < min(len(word), _MANY):
        return None
    rows = rows / rows.norm(dim=1, keepdim=True)
    size = 2
    while size <= min(word.shape[1], len(rows)) // 2:
        draws = [_span(rows[torch.randperm(len(rows), generator=rng)[:size]]) for _ in range(_DRAWS)]
        fitting = [basis for basis in draws if len(basis) < size and _holds_most(basis, rows)]
        if fitting:
            return min(fitting, key=len)
        size *= 2
    return None


def _span(rows: Tensor) -> Tensor:
    _, values, basis = torch.linalg.svd(rows, full_matrices=False)
    spanned: Tensor = basis[: int((values > _SMALL * values[0]).sum())]
    return spanned


def _holds_most(basis: Tensor, rows: Tensor) -> bool:
    rest = rows - (rows @ basis.T) @ basis
    return float((rest.norm(dim=1) < _SMALL).double().mean()) > 0.5

"""Batches of inputs that processors of transformers made one by one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

SEQUENCES = frozenset({"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "bbox"})
"""Inputs with one row for each token, which are padded; the others must be of one shape in a batch."""


def groups(built: Sequence[dict[str, Tensor]]) -> list[list[int]]:
    """Rows that can share a batch: those whose other inputs have one shape."""
    found: dict[tuple[object, ...], list[int]] = {}
    for row, inputs in enumerate(built):
        shapes = tuple((name, *tensor.shape) for name, tensor in sorted(inputs.items()) if name not in SEQUENCES)
        found.setdefault(shapes, []).append(row)
    return list(found.values())


def collate(built: Sequence[dict[str, Tensor]], pad: int, *, left: bool) -> dict[str, Tensor]:
    """One batch of the inputs of a group.

    Args:
        pad: Token that fills ``input_ids``; the attention mask is 0 there.
        left: Whether the padding comes first, as generation needs it.
    """
    batch = {}
    for name in built[0]:
        tensors = [inputs[name] for inputs in built]
        if name in SEQUENCES:
            length = max(tensor.shape[1] for tensor in tensors)
            tensors = [_padded(tensor, length, pad if name == "input_ids" else 0, left=left) for tensor in tensors]
        batch[name] = torch.cat(tensors)
    return batch


def _padded(tensor: Tensor, length: int, value: int, *, left: bool) -> Tensor:
    missing = length - tensor.shape[1]
    inner = [0, 0] * (tensor.dim() - 2)
    return functional.pad(tensor, [*inner, missing, 0] if left else [*inner, 0, missing], value=value)

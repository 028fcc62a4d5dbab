"""Gradients of low-rank adapters on the first attention: rows that are combinations of its inputs.

With y = W x + s B A x over the inputs x_i of a page, and g_i the error signal of y_i,

    dL/dA = s B^T sum_i g_i x_i^T        dL/dB = s sum_i g_i (A x_i)^T

Each of the r rows of dL/dA is a combination of the inputs. B begins at zero, and so does dL/dA: in the first round only
dL/dB is not zero, which shows inputs in the r dimensions of A alone.

Source: Hu et al., LoRA, 2021, section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from pfl_audit.errors import AuditError

DOWN: Final = ".lora_A."
UP: Final = ".lora_B."
_WRAPPED: Final = "base_model.model."
"""What peft puts in front of the names inside of the module that it wraps."""


@dataclass(frozen=True, eq=False)
class Halves:
    """Gradients of the adapters of some layers with the same input, as far as they were shared.

    Attributes:
        down: float (rows, width), of the halves A, one below the other; without rows that are zero.
        up: float (outputs, rank) each, of the halves B.
        rank: Sum of the ranks.
    """

    down: Tensor
    up: tuple[Tensor, ...]
    rank: int


def adapted_layer(name: str) -> str | None:
    """Name of the weight that an adapter's tensor belongs to, as it is without peft; None of any other tensor.

    Args:
        name: As peft has it, ``module.base_model.model.q.lora_A.default.weight``, or without its ``base_model.model.``
            and ``default.``.
    """
    for half in (DOWN, UP):
        stem, found, rest = name.partition(half)
        if found and rest.endswith("weight"):
            return f"{stem.replace(_WRAPPED, '')}.weight"
    return None


def halves_of(update: Mapping[str, Tensor], layers: Sequence[str], width: int) -> Halves | None:
    """The adapters of layers.

    Args:
        update: By parameter.
        layers: Endings of the names of the layers' weights.
        width: Width of the layers' inputs.

    Returns:
        None if the update has no adapters of them.

    Raises:
        AuditError: A half A is not as wide as the inputs.
    """
    down, up = [], []
    for name, part in update.items():
        layer = adapted_layer(name)
        if layer is None or not any(layer == ending or layer.endswith(f".{ending}") for ending in layers):
            continue
        if DOWN not in name:
            up.append(part)
        elif part.dim() == 2 and part.shape[1] == width:
            down.append(part)
        else:
            raise AuditError(
                f"{name} of the gradient is {tuple(part.shape)}, not {width} wide", "Take that of this model"
            )
    if not down and not up:
        return None
    rows = torch.cat(down) if down else torch.zeros(0, width)
    return Halves(rows[rows.any(dim=1)], tuple(up), len(rows))

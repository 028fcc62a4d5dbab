"""Gradients of low-rank adapters on the first attention: rows that are combinations of its inputs.

With y = W x + s B A x over the inputs x_i of a page, and g_i the error signal of y_i,

    dL/dA = s B^T sum_i g_i x_i^T        dL/dB = s sum_i g_i (A x_i)^T

Each of the r rows of dL/dA is a combination of the inputs. B begins at zero, and so does dL/dA: in the first round only
dL/dB is not zero, which shows inputs in the r dimensions of A alone.

Source: Hu et al., LoRA, 2021, section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.update.difference import rounding_of
from pfl_audit.errors import AuditError
from pfl_audit.metrics.arrays import Floats

DOWN: Final = ".lora_A."
UP: Final = ".lora_B."
_ABOVE: Final = 1.5
"""Times the length of errors up to which a row is nothing else."""
_WRAPPED: Final = "base_model.model."
"""What peft puts in front of the names inside of the module that it wraps."""


@dataclass(frozen=True, eq=False)
class Halves:
    """Gradients of the adapters of some layers with the same input, as far as they were shared.

    Attributes:
        down: float (rows, width), of the halves A, one below the other; without rows that errors explain.
        errors: float64 (rows,), standard deviation of what weights that were subtracted add to an entry of each row.
        up: float (outputs, rank) each, of the halves B.
        rank: Sum of the ranks of the halves A.
        first: Whether the halves B may have been zero before the update.
        begun: float (rows, width), the halves A before the update, as far as they are known: weight decay adds them.
    """

    down: Tensor
    errors: Tensor
    up: tuple[Tensor, ...]
    rank: int
    first: bool = True
    begun: Tensor = field(default_factory=lambda: torch.zeros(0, 0))


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


def holds_adapters(update: Mapping[str, Tensor]) -> bool:
    """Whether an update has tensors of adapters."""
    return any(adapted_layer(name) is not None for name in update)


def adapter_shapes(
    shapes: Mapping[str, tuple[int, ...]], own: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Shapes that the halves of adapters of a model's matrices have, by name: any rank up to the matrix's.

    Args:
        shapes: Shapes of the tensors of an update, by name.
        own: Shapes of the model's parameters, by name.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        layer = adapted_layer(name)
        ends = [each for each in own if layer is not None and (each == layer or each.endswith(f".{layer}"))]
        if len(ends) == 1 and len(own[ends[0]]) == len(shape) == 2:
            outputs, inputs = own[ends[0]]
            rank = max(1, min(shape[0 if DOWN in name else 1], outputs, inputs))
            found[name] = (rank, inputs) if DOWN in name else (outputs, rank)
    return found


def rounding_of_matrices(
    sent_as: Mapping[str, Tensor], weights: Mapping[str, Tensor], parts: Sequence[str] = (DOWN,), steps: int = 1
) -> dict[str, Tensor]:
    """Errors of matrices of a difference of weights, by name: as ``Halves.errors``.

    Args:
        sent_as: The update as it was sent, by parameter.
        weights: What it was added to, by parameter.
        parts: Strings, one of which is in the name of each matrix.
        steps: Optimiser steps, each of which rounds.
    """
    found = {}
    for name, part in sent_as.items():
        named = name in weights and any(each in name for each in parts)
        if named and part.shape == weights[name].shape and part.dim() > 1:
            rounded = rounding_of(part.flatten(1), weights[name].flatten(1), steps)
            if rounded is not None:
                found[name] = torch.from_numpy(rounded)
    return found


def rounding_in(errors: Mapping[str, Tensor], ending: str, rows: int) -> Floats:
    """Errors of the matrix whose name ends like this, float64 (rows,); zeros where they are not known.

    Args:
        errors: As of ``rounding_of_matrices``.
    """
    found = next((part for name, part in errors.items() if name.endswith(ending)), None)
    return np.zeros(rows) if found is None else found.double().numpy()


def halves_of(
    update: Mapping[str, Tensor],
    layers: Sequence[str],
    width: int,
    weights: Mapping[str, Tensor] | None = None,
    errors: Mapping[str, Tensor] | None = None,
) -> Halves | None:
    """The adapters of layers.

    Args:
        update: By parameter.
        layers: Endings of the names of the layers' weights.
        width: Width of the layers' inputs.
        weights: What it was added to, by parameter, with the adapters' as far as they are known.
        errors: As of ``rounding_of_matrices``.

    Returns:
        None if the update has no adapters of them.

    Raises:
        AuditError: A half A is not as wide as the inputs.
    """
    down, up, noise, first, begun, own = [], [], [], True, weights or {}, [torch.zeros(0, width)]
    for name, part in update.items():
        layer = adapted_layer(name)
        if layer is None or not any(layer == ending or layer.endswith(f".{ending}") for ending in layers):
            continue
        if DOWN not in name:
            up.append(part)
            first &= name not in begun or not begun[name].any()
        elif part.dim() == 2 and part.shape[1] == width:
            down.append(part)
            own += [begun[name].detach().cpu()] if name in begun and begun[name].shape == part.shape else []
            noise.append((errors or {}).get(name, torch.zeros(len(part), dtype=torch.float64)))
        else:
            raise AuditError(
                f"{name} of the gradient is {tuple(part.shape)}, not {width} wide", "Take that of this model"
            )
    if not down and not up:
        return None
    rows = torch.cat(down) if down else torch.zeros(0, width)
    each = torch.cat(noise) if noise else torch.zeros(0, dtype=torch.float64)
    loud = rows.double().norm(dim=1) > _ABOVE * sqrt(width) * each
    return Halves(rows[loud], each[loud], tuple(up), len(rows), first, torch.cat(own))

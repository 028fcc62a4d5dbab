"""The tensors of a gradient that the closed form reads, found by name and checked against the embedding layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.word_encoder import EmbeddingLayout, TableName


@dataclass(frozen=True)
class Tables:
    """Gradients of tables, as shared; None where none was shared or all of it is zero.

    Attributes:
        word: (vocabulary, width).
        position: (positions, width).
        types: (types, width).
        x: (coordinates, width of the x slices); y, h and w likewise.
        patches: (1, 1 + patches, width), CLS before the patches.
        projection: (width, channels, side, side).
        bias: (width,), of the projection.
    """

    word: Tensor | None
    position: Tensor | None
    types: Tensor | None
    x: Tensor | None
    y: Tensor | None
    h: Tensor | None
    w: Tensor | None
    patches: Tensor | None
    projection: Tensor | None
    bias: Tensor | None

    def edge(self, name: str) -> Tensor | None:
        """The x, y, h or w table."""
        return {"x": self.x, "y": self.y, "h": self.h, "w": self.w}[name]


def read_tables(gradient: Mapping[str, Tensor], layout: EmbeddingLayout) -> Tables:
    """Pick the tables out of a gradient.

    Args:
        gradient: Gradient by the names of the parameters; a prefix before the known ending of a name is ignored.

    Raises:
        AuditError: A tensor of another shape than the model's, one that is not of real numbers or holds NaN or
            infinity, or two of one ending.
    """
    found = {name: find_tensor(gradient, table.name, table.shape) for name, table in layout.tables.items()}
    return Tables(**{name: found.get(name) for name in get_args(TableName)})


def weight_of(weights: Mapping[str, Tensor], ending: str) -> Tensor:
    """The weight whose name ends like this, at the beginning or after a dot, without its graph."""
    return next(part.detach() for name, part in weights.items() if name == ending or name.endswith(f".{ending}"))


def array_of(weights: Mapping[str, Tensor], ending: str) -> Floats:
    """The same as an array, float64."""
    return np.asarray(weight_of(weights, ending).cpu().double().numpy())


def shared_tensors(
    gradient: Mapping[str, Tensor], weights: Mapping[str, Tensor], endings: Sequence[str]
) -> dict[str, Tensor]:
    """By ending the tensors of a gradient that belong to these weights, those that are not there left out.

    Raises:
        AuditError: As ``find_tensor``.
    """
    found = {ending: find_tensor(gradient, ending, tuple(weight_of(weights, ending).shape)) for ending in endings}
    return {ending: part for ending, part in found.items() if part is not None}


def find_tensor(gradient: Mapping[str, Tensor], ending: str, shape: tuple[int, ...]) -> Tensor | None:
    """Take one tensor of a gradient, checked; None where it is not there, or all zero.

    Args:
        gradient: Gradient by the names of the parameters.
        ending: Ending of the name, at the beginning or after a dot.
        shape: Shape of the parameter.

    Raises:
        AuditError: As read_tables has it.
    """
    names = [name for name in gradient if name == ending or name.endswith(f".{ending}")]
    if not names:
        return None
    if len(names) > 1:
        raise AuditError(f"the gradient has {len(names)} tensors that end in {ending}", "Keep those of one model")
    tensor = gradient[names[0]]
    if tuple(tensor.shape) != shape:
        raise AuditError(
            f"{names[0]} of the gradient is {tuple(tensor.shape)}, the model's is {shape}",
            "Take the gradient of this model",
        )
    if not tensor.is_floating_point():
        raise AuditError(f"{names[0]} of the gradient is of {tensor.dtype}", "Save the gradient as floating point")
    if not torch.isfinite(tensor).all():
        raise AuditError(f"{names[0]} of the gradient holds NaN or infinity", "Save it before it is scaled or clipped")
    return tensor.detach().cpu() if tensor.any() else None

"""The few tensors of a gradient that the closed form reads, found by name and held against the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.family import Family
from pfl_audit.errors import AuditError

_NAMES = {
    "word": "embeddings.word_embeddings.weight",
    "position": "embeddings.position_embeddings.weight",
    "types": "embeddings.token_type_embeddings.weight",
    "x": "embeddings.x_position_embeddings.weight",
    "y": "embeddings.y_position_embeddings.weight",
    "h": "embeddings.h_position_embeddings.weight",
    "w": "embeddings.w_position_embeddings.weight",
    "patches": "pos_embed",
    "projection": "patch_embed.proj.weight",
    "bias": "patch_embed.proj.bias",
}


@dataclass(frozen=True)
class Tables:
    """Gradients of tables, as shared; None where none was shared or all of it is zero.

    Attributes:
        word: (vocabulary, width).
        position: (positions, width).
        types: (types, width).
        x: (coordinates, width of the x slices); y, h and w likewise.
        y: See x.
        h: See x.
        w: See x.
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


def read_tables(gradient: Mapping[str, Tensor], family: Family, config: Any) -> Tables:
    """Pick the tables out of a gradient.

    Args:
        gradient: By the names of the parameters; whatever stands before the known ending of a name is ignored.
        family: Of the model.
        config: Of the model, for the sizes.

    Raises:
        AuditError: A tensor of another shape than the model's, one that is not of real numbers or holds NaN or
            infinity, or two of one ending.
    """
    shapes = _shapes(family, config)
    return Tables(
        **{part.name: find_tensor(gradient, _NAMES[part.name], shapes.get(part.name)) for part in fields(Tables)}
    )


def _shapes(family: Family, config: Any) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "word": (int(config.vocab_size), family.width),
        "position": (int(config.max_position_embeddings), family.width),
        "types": (int(config.type_vocab_size), family.width),
    }
    for name, slices in family.slices.items():
        shapes[name] = (int(config.max_2d_position_embeddings), len(range(*slices[0].indices(family.width))))
    if family.sees:
        side = int(config.patch_size)
        count = (int(config.input_size) // side) ** 2
        shapes["patches"] = (1, count + 1, family.width)
        shapes["projection"] = (family.width, int(config.num_channels), side, side)
        shapes["bias"] = (family.width,)
    return shapes


def find_tensor(gradient: Mapping[str, Tensor], ending: str, shape: tuple[int, ...] | None) -> Tensor | None:
    """Take one tensor of a gradient, checked; None where it is not there, or all zero.

    Args:
        gradient: By the names of the parameters.
        ending: Of the name; dots part what stands before it.
        shape: That of the parameter; None where the model has none.

    Raises:
        AuditError: As read_tables has it.
    """
    names = [name for name in gradient if name == ending or name.endswith(f".{ending}")]
    if shape is None or not names:
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

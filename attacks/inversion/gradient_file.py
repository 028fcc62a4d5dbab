"""Reads a captured gradient: named tensors in one safetensors file."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.safetensors_file import read_header
from pfl_audit.models.tensor_file import Entry, read_tensors
from pfl_audit.progress import Progress

_REMEDY = "Save {name: parameter.grad} of the model's named_parameters(), for the checkpoint that --model names"


def read_gradient(path: Path, model: GradientModel, progress: Progress) -> dict[str, Tensor]:
    """Read a gradient and hold it against the model that it shall be of.

    Args:
        path: A safetensors file. Nothing in it is run, and no tensor is read before its shape was looked at.
        model: Whose parameters give the names and shapes.
        progress: Told which tensors are not there; a client may freeze layers, or keep some to itself.

    Returns:
        float32 by parameter, in the order of the model's parameters.

    Raises:
        UsageError: There is no such file.
        AuditError: It cannot be read, or a tensor in it is no parameter of the model, has another shape, is not of
            floating-point numbers, or holds NaN or infinity.
    """
    own = {name: tuple(parameter.shape) for name, parameter in model.network.named_parameters()}
    entries = read_header(path, remedy="Save it again, with safetensors").entries
    _require_parameters(path, list(entries), own)
    for name, entry in entries.items():
        _require_shape(path, name, entry, own[name])
    found = read_tensors(path, {name: entries[name] for name in own if name in entries}, single=True)
    for name, part in found.items():
        if not bool(torch.isfinite(part).all()):
            raise AuditError(
                f"gradient {path}: tensor {name} holds NaN or infinite values",
                "Take the gradient without mixed precision, or leave that tensor out",
            )
    missing = [name for name in own if name not in found]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        progress.say(f"the gradient lacks {len(missing)} of the model's {len(own)} tensors: {missing[0]}{more}")
    return found


def _require_parameters(path: Path, names: list[str], own: dict[str, tuple[int, ...]]) -> None:
    unknown = [name for name in names if name not in own]
    if len(unknown) == len(names):
        raise AuditError(f"gradient {path}: none of its {len(names)} tensors is a parameter of the model", _REMEDY)
    if unknown:
        raise AuditError(f"gradient {path}: tensor {unknown[0][:80]!r} is no parameter of the model", _REMEDY)


def _require_shape(path: Path, name: str, entry: Entry, own: tuple[int, ...]) -> None:
    if entry.shape != own:
        raise AuditError(f"gradient {path}: tensor {name} is {entry.shape}, the model's parameter {own}", _REMEDY)
    if not entry.dtype.is_floating_point:
        raise AuditError(f"gradient {path}: tensor {name} holds no floating-point numbers ({entry.dtype})", _REMEDY)

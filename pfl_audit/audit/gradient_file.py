"""A gradient that was captured from somebody's own training: named tensors in one safetensors file."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.progress import Progress

_FLOATS = {"F16", "BF16", "F32", "F64"}
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
    if not path.is_file():
        raise UsageError(f"gradient {path} is no file", "Give the safetensors file that the gradient was saved in")
    own = {name: tuple(parameter.shape) for name, parameter in model.network.named_parameters()}
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            _require_parameters(path, names, own)
            for name in names:
                view = file.get_slice(name)
                _require_shape(path, name, tuple(view.get_shape()), own[name], str(view.get_dtype()))
            found = {name: file.get_tensor(name).to(torch.float32) for name in own if name in set(names)}
    except (SafetensorError, OSError, ValueError) as error:
        text = " ".join(str(error).split())[:200]
        raise AuditError(f"gradient {path} cannot be read: {text}", "Save it again, with safetensors") from error
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


def _require_shape(path: Path, name: str, shape: tuple[int, ...], own: tuple[int, ...], kind: str) -> None:
    if shape != own:
        raise AuditError(f"gradient {path}: tensor {name} is {shape}, the model's parameter {own}", _REMEDY)
    if kind not in _FLOATS:
        raise AuditError(f"gradient {path}: tensor {name} holds no floating-point numbers ({kind})", _REMEDY)

"""A captured update, read and held against the model that it shall be of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.rows import DOWN, adapted_layer, adapter_shapes
from pfl_audit.errors import AuditError
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.safetensors_file import read_header
from pfl_audit.models.tensor_file import Entry, read_tensors
from pfl_audit.progress import Progress

_REMEDY = "Save {name: parameter.grad} of the model's named_parameters(), for the checkpoint that --model names"
_SCALE = ".scale"
"""After the name of a tensor of integers, the name of their steps."""
_SIZES = (1e-18, 1e12)
"""Range of the largest number in which squares fit in single precision."""
_INTEGERS = ("int8", "uint8", "int16", "int32")


def read_gradient(path: Path, model: GradientModel, progress: Progress) -> dict[str, Tensor]:
    """Read a gradient and hold it against the model that it shall be of.

    Args:
        path: A safetensors file. Nothing in it is run, and no tensor is read before its shape was looked at. A tensor
            of integers is multiplied by ``NAME.scale``, which holds one number, or one for each row.
        model: Whose parameters give the names and shapes.
        progress: Shows which tensors are not there; a client may freeze layers, or keep some to itself.

    Returns:
        float32 by parameter, in the order of the model's parameters; behind them adapters, by peft's names.

    Raises:
        UsageError: There is no such file.
        AuditError: It cannot be read, or a tensor in it is no parameter of the model, has another shape, is neither of
            floating-point numbers nor of integers with a scale, or holds NaN or infinity; or all numbers are zero, or
            too far from one to be squared.
    """
    own = {name: tuple(parameter.shape) for name, parameter in model.network.named_parameters()}
    entries = read_header(path, remedy="Save it again, with safetensors").entries
    many = len(own)
    own |= adapter_shapes({name: entry.shape for name, entry in entries.items()}, own)
    scales = _scales(path, entries, own)
    _require_parameters(path, [name for name in entries if name not in scales], own)
    for name, entry in entries.items():
        if name not in scales:
            _require_shape(path, name, entry, own[name], scaled=name + _SCALE in scales)
    kept = {name: entries[name] for name in own if name in entries}
    raw = read_tensors(path, kept | {name: entries[name] for name in scales}, single=True)
    found = {name: _as_numbers(raw[name], raw.get(name + _SCALE)) for name in kept}
    for name, part in found.items():
        if not bool(torch.isfinite(part).all()):
            raise AuditError(
                f"gradient {path}: tensor {name} holds NaN or infinite values",
                "Take the gradient without mixed precision, or leave that tensor out",
            )
    _require_size(path, max(float(part.abs().max()) for part in found.values()))
    missing = [name for name in own if name not in found]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        progress.say(f"the gradient lacks {len(missing)} of the model's {many} tensors: {missing[0]}{more}")
    return found


def _as_numbers(raw: Tensor, scale: Tensor | None) -> Tensor:
    """Floating-point numbers of a tensor, (rows, ...), whose steps are (), (1,), (rows,) or (rows, 1)."""
    if scale is None:
        return raw
    return (raw.float() * scale.float().reshape(-1, *[1] * (raw.dim() - 1))).reshape(raw.shape)


def _scales(path: Path, entries: Mapping[str, Entry], own: Mapping[str, tuple[int, ...]]) -> set[str]:
    """Names of the scales of tensors of integers.

    Raises:
        AuditError: One has not a number, or one for each row, or is not of floating-point numbers.
    """
    found = set()
    for name, shape in own.items():
        scale = entries.get(name + _SCALE)
        if scale is None or name not in entries or name + _SCALE in own:
            continue
        rows = shape[0] if shape else 1
        if scale.elements not in (1, rows) or not scale.dtype.is_floating_point:
            raise AuditError(
                f"gradient {path}: {name}{_SCALE} is {scale.shape} of {scale.dtype}, not a step or one for each row",
                "Save the steps by which its integers are to be multiplied",
            )
        found.add(name + _SCALE)
    return found


def _require_parameters(path: Path, names: list[str], own: dict[str, tuple[int, ...]]) -> None:
    unknown = [name for name in names if name not in own]
    if len(unknown) == len(names):
        raise AuditError(f"gradient {path}: none of its {len(names)} tensors is a parameter of the model", _REMEDY)
    if unknown:
        raise AuditError(f"gradient {path}: tensor {unknown[0][:80]!r} is no parameter of the model", _REMEDY)


def _require_size(path: Path, largest: float) -> None:
    if not largest:
        raise AuditError(
            f"gradient {path}: all its numbers are zero", "Save it after the backward pass and before zero_grad()"
        )
    if not _SIZES[0] < largest < _SIZES[1]:
        raise AuditError(
            f"gradient {path}: its largest number is {largest:.0e}, too far from 1 to be squared",
            "Multiply all of it by one number: no method needs its size",
        )


def _require_shape(path: Path, name: str, entry: Entry, own: tuple[int, ...], *, scaled: bool) -> None:
    if entry.shape != own and adapted_layer(name) is not None:
        half = f"(rank, {own[1]})" if DOWN in name else f"({own[0]}, rank)"
        raise AuditError(
            f"gradient {path}: tensor {name} is {entry.shape}, and that half of an adapter {half}",
            "Save lora_A as (rank, inputs) and lora_B as (outputs, rank)",
        )
    if entry.shape != own:
        raise AuditError(f"gradient {path}: tensor {name} is {entry.shape}, the model's parameter {own}", _REMEDY)
    if not entry.dtype.is_floating_point and not (scaled and entry.dtype.name in _INTEGERS):
        raise AuditError(
            f"gradient {path}: tensor {name} holds no floating-point numbers ({entry.dtype})",
            f"Save its steps beside it as '{name}{_SCALE}', or save floating-point numbers",
        )

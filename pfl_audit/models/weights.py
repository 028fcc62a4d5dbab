"""Weights from a checkpoint folder: safetensors first, restricted torch otherwise, never code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.files import read_json, sha256_file
from pfl_audit.models.pickle_scan import refuse_code

CONFIG = "config.json"
_SINGLE = ("model.safetensors", "pytorch_model.bin")
_INDEXED = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_TOKENIZER = (
    "spiece.model", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt",
)  # fmt: skip


def checkpoint_files(folder: Path) -> list[Path]:
    """The weight files of a checkpoint folder, safetensors before pickles.

    Raises:
        AuditError: The folder is no checkpoint; an index names a file that is missing or outside.
    """
    if not folder.is_dir():
        raise AuditError(
            f"{folder} is no folder", "Give a local checkpoint folder, or a hub id together with --download"
        )
    if not (folder / CONFIG).is_file():
        raise AuditError(f"{folder} is no checkpoint: it has no {CONFIG}", "Give the folder that save_pretrained made")
    for single, index in zip(_SINGLE, _INDEXED, strict=True):
        if (folder / single).is_file():
            return [folder / single]
        if (folder / index).is_file():
            return _shards(folder, index)
    raise AuditError(f"{folder} has no weights ({' or '.join(_SINGLE)})", "Give the folder that save_pretrained made")


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` as data.

    Raises:
        AuditError: Not a JSON object.
    """
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict):
        raise AuditError(f"{folder / CONFIG} is not a JSON object", "Get it from the checkpoint's source again")
    return config


def read_state(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a checkpoint, as float32 where it is a float, on the CPU.

    Raises:
        AuditError: Damaged, holds anything but tensors, or holds a value that is not finite (the
            tensor is named).
    """
    state: dict[str, Tensor] = {}
    for path in checkpoint_files(folder):
        state |= _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)
    for name in [name for name, tensor in state.items() if tensor.is_floating_point()]:
        state[name] = state[name].to(torch.float32)
        if not bool(torch.isfinite(state[name]).all()):
            raise AuditError(
                f"{folder}: the tensor {name} holds NaN or infinite values", "Train or export the model again"
            )
    return state


def tensor_names(folder: Path) -> frozenset[str]:
    """Names of the tensors, from the header alone where the file is safetensors."""
    names: set[str] = set()
    for path in checkpoint_files(folder):
        if path.suffix == ".safetensors":
            try:
                with safe_open(path, framework="pt") as file:
                    names |= set(file.keys())
            except (SafetensorError, OSError) as error:
                raise _damaged(path, error) from error
        else:
            names |= set(_read_pickle(path, mmap=True))
    return frozenset(names)


def fingerprint_files(folder: Path) -> dict[str, str]:
    """File name to SHA-256, for all files that decide what the model answers."""
    tokenizer = (folder / name for name in _TOKENIZER)
    settings = (folder / name for name in (CONFIG, "generation_config.json", "preprocessor_config.json"))
    wanted = [*checkpoint_files(folder), *settings, *tokenizer]
    return {path.name: sha256_file(path) for path in wanted if path.is_file()}


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError, ValueError) as error:
        raise _damaged(path, error) from error


def _read_pickle(path: Path, *, mmap: bool = False) -> dict[str, Tensor]:
    refuse_code(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # torch raises many kinds for a damaged file
        raise _damaged(path, error) from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise AuditError(f"{path} is not a table of tensors", "Save the model's state_dict() alone")
    return {str(name): tensor.detach() for name, tensor in state.items()}


def _shards(folder: Path, index: str) -> list[Path]:
    table = read_json(folder / index)
    names = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(names, dict):
        raise AuditError(f"{folder / index} has no weight_map", "Get it from the checkpoint's source again")
    shards = sorted({str(name) for name in names.values()})
    for name in shards:
        if Path(name).name != name or not _is_file(folder / name):
            raise AuditError(f"{folder / index} names {name}, which is not in the folder", "Copy all shards")
    return [folder / name for name in shards]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name that is too long
        return False


def _damaged(path: Path, error: Exception) -> AuditError:
    text = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return AuditError(f"{path} cannot be read: {text}", "Copy it again from its source")

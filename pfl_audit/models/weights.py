"""Files of a checkpoint folder: safetensors first, torch's zip format otherwise, never code.

Headers and settings are read without torch, which only ``read_state`` imports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfl_audit.errors import AuditError
from pfl_audit.inputs import MIB, is_there, read_json, require_folder, sha256_input
from pfl_audit.models.safetensors_file import read_header
from pfl_audit.models.tensor_file import MOST_TENSORS, Entry, read_tensors
from pfl_audit.models.torch_file import read_archive

if TYPE_CHECKING:
    from torch import Tensor

CONFIG = "config.json"
BESIDE_CONFIG = ("generation_config.json", "preprocessor_config.json", "processor_config.json")
"""Further files of settings."""
LARGEST_SETTINGS = 4 * MIB
"""Largest size of ``config.json`` and other files of settings; real ones have a few kilobytes."""
_LARGEST_INDEX = 16 * MIB
_MOST_SHARDS = 64
_SINGLE = ("model.safetensors", "pytorch_model.bin")
_INDEXED = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_TOKENIZER = (
    "spiece.model", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt",
)  # fmt: skip


def checkpoint_files(folder: Path) -> list[Path]:
    """Weight files of a checkpoint folder; safetensors are preferred to pickles.

    Raises:
        UsageError: There is no such folder.
        AuditError: The folder is no checkpoint; an index names a file that is missing or outside.
    """
    require_folder(folder, "Give a local checkpoint folder, or a hub id together with --download")
    if not is_there(folder / CONFIG):
        raise AuditError(f"{folder} is no checkpoint: it has no {CONFIG}", "Give the folder that save_pretrained made")
    for single, index in zip(_SINGLE, _INDEXED, strict=True):
        if is_there(folder / single):
            return [folder / single]
        if is_there(folder / index):
            return _shards(folder, index)
    raise AuditError(f"{folder} has no weights ({' or '.join(_SINGLE)})", "Give the folder that save_pretrained made")


def read_settings(path: Path) -> Any:
    """Read a small JSON file of a checkpoint; empty if there is none.

    Raises:
        AuditError: It is no JSON, no regular file, or too large.
    """
    return read_json(path, limit=LARGEST_SETTINGS) if is_there(path) else {}


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` as data.

    Raises:
        AuditError: Not a JSON object.
    """
    config = read_json(folder / CONFIG, limit=LARGEST_SETTINGS)
    if not isinstance(config, dict):
        raise AuditError(f"{folder / CONFIG} is not a JSON object", "Get it from the checkpoint's source again")
    return config


def read_state(folder: Path) -> dict[str, Tensor]:
    """Read all tensors of a checkpoint to the CPU, floating-point ones as float32.

    Raises:
        AuditError: Damaged, holds anything but tensors, or holds a value that is not finite (the
            tensor is named).
    """
    state: dict[str, Tensor] = {}
    for path in checkpoint_files(folder):
        entries = read_entries(path)
        if twice := sorted(set(state) & set(entries)):
            raise AuditError(f"{path} holds the tensor {twice[0][:160]} once more", "Copy all shards again")
        state |= read_tensors(path, entries, single=True)
    require_finite(folder, state.items())
    return state


def require_finite(folder: Path, tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Raise AuditError where a value of a checkpoint is not finite; the tensor is named."""
    import torch

    for name, tensor in tensors:
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise AuditError(
                f"{folder}: the tensor {name[:160]} holds NaN or infinite values", "Train or export the model again"
            )


def tensor_names(folder: Path) -> frozenset[str]:
    """Names of a checkpoint's tensors; no tensor is read."""
    return frozenset(name for path in checkpoint_files(folder) for name in read_entries(path))


def fingerprint_files(folder: Path) -> dict[str, str]:
    """File name to SHA-256, for all files that determine what the model answers."""
    tokenizer = (folder / name for name in _TOKENIZER)
    settings = (folder / name for name in (CONFIG, *BESIDE_CONFIG))
    wanted = [*checkpoint_files(folder), *settings, *tokenizer]
    return {path.name: sha256_input(path) for path in wanted if is_there(path)}


def read_entries(path: Path) -> Mapping[str, Entry]:
    """Name to place of the tensors of one weight file; no tensor is read.

    Raises:
        AuditError: It is damaged, or holds anything but tensors.
    """
    return read_header(path).entries if path.suffix == ".safetensors" else read_archive(path)


def _shards(folder: Path, index: str) -> list[Path]:
    table = read_json(folder / index, limit=_LARGEST_INDEX)
    names = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(names, dict):
        raise AuditError(f"{folder / index} has no weight_map", "Get it from the checkpoint's source again")
    shards = sorted({str(name) for name in names.values()})
    if len(shards) > _MOST_SHARDS or len(names) > MOST_TENSORS:
        raise AuditError(
            f"{folder / index} names more files than any checkpoint has", "Check that it is the right file"
        )
    for name in shards:
        if not name or Path(name).name != name or not is_there(folder / name):
            raise AuditError(f"{folder / index} names {name[:200]}, which is not in the folder", "Copy all shards")
    return [folder / name for name in shards]

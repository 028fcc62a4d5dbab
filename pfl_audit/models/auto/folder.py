"""Checks of a checkpoint folder before transformers reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError
from pfl_audit.inputs import MIB, is_regular, is_there, sha256_input
from pfl_audit.models.adapter_folder import ADAPTER_CONFIG
from pfl_audit.models.settings import nested
from pfl_audit.models.tensor_file import require_memory
from pfl_audit.models.weights import checkpoint_files, read_config, read_entries

_READ = {".json": 128 * MIB, ".txt": 64 * MIB, ".model": 64 * MIB, ".jinja": MIB}
"""Largest size of the files beside the weights, by suffix; a tokenizer of 256,000 pieces has 35 MB."""
_ATTENTION = "attn_implementation"
"""Part of the names of all settings that choose a kernel: ``_attn_implementation_internal`` is one (CVE-2026-4372)."""
_OF_TRANSFORMERS = frozenset({"eager", "sdpa", "flash_attention_2"})


def side_files(folder: Path) -> list[Path]:
    """Files beside the weights that transformers may read, sorted by name."""
    return sorted(path for path in folder.iterdir() if path.suffix in _READ)


def check_folder(folder: Path) -> dict[str, Any]:
    """Check sizes, kinds and headers of the files of a checkpoint.

    Returns:
        ``config.json``.

    Raises:
        AuditError: The weights are no safetensors, a file is not regular or too large, the weights need more memory
            than is free, an adapter is beside them, or config.json names other weights, quantised layers or kernels
            from the network.
    """
    files = checkpoint_files(folder)
    if is_there(folder / ADAPTER_CONFIG):  # transformers would apply it by itself
        raise AuditError(
            f"{folder} holds a checkpoint and an adapter ({ADAPTER_CONFIG})", "Move the adapter to a folder of its own"
        )
    if files[0].suffix != ".safetensors":
        raise AuditError(
            f"{folder}: the weights are a pickle ({files[0].name})",
            "Save them as safetensors: model.save_pretrained(folder)",
        )
    for path in side_files(folder):
        if not is_regular(path) or path.stat().st_size > _READ[path.suffix]:
            raise AuditError(f"{path} is no regular file, or too large", "Copy it again from its source")
    needed = sum(entry.bytes(single=True) for path in files for entry in set(read_entries(path).values()))
    require_memory(files[0] if len(files) == 1 else folder, needed)
    config = read_config(folder)
    check_settings(folder, config)
    return config


def check_settings(folder: Path, config: Mapping[str, Any]) -> None:
    """Check that ``config.json`` names nothing that transformers would fetch or run from elsewhere.

    Raises:
        AuditError: It names other weights, code, quantised layers or kernels from elsewhere.
    """
    for where, name, value in nested(config, _ATTENTION):
        if name == "transformers_weights" and value:
            raise AuditError(f"{folder}: config.json names other weights", f"Delete {name} from config.json")
        if name == "trust_remote_code" and value:  # CVE-2026-5241: a configuration class passed it on
            raise AuditError(f"{folder}: config.json allows code from elsewhere", f"Delete {name} from config.json")
        if name == "quantization_config" and value:
            raise AuditError(f"{folder}: the weights are quantised", "Save the model dequantised: model.dequantize()")
        if _ATTENTION in name and isinstance(value, str) and value not in _OF_TRANSFORMERS:
            raise AuditError(
                f"{folder}: config.json{where} names an attention kernel that is not part of transformers",
                f"Delete {name[:80]} from config.json",
            )


def fingerprint(folder: Path) -> dict[str, str]:
    """File name to SHA-256, for the weights and all files beside them."""
    weights = [path for path in folder.iterdir() if path.suffix == ".safetensors"]
    return {path.name: sha256_input(path) for path in sorted([*weights, *side_files(folder)])}


def stored_elements(folder: Path) -> int:
    """Elements of the tensors in the weight files."""
    return sum(entry.elements for path in checkpoint_files(folder) for entry in set(read_entries(path).values()))

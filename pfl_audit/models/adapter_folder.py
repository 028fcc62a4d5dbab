"""Folders that ``peft`` saves: an adapter, and the path of the checkpoint that it belongs to. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.inputs import is_there
from pfl_audit.models.weights import CONFIG, read_settings

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"


def is_adapter(folder: Path) -> bool:
    """Whether a folder has an adapter and no model of its own."""
    return is_there(folder / ADAPTER_CONFIG) and not is_there(folder / CONFIG)


def read_adapter(folder: Path) -> dict[str, Any]:
    """``adapter_config.json`` as data.

    Raises:
        AuditError: Not a JSON object.
    """
    config = read_settings(folder / ADAPTER_CONFIG)
    if not isinstance(config, dict):
        raise AuditError(f"{folder / ADAPTER_CONFIG} is not a JSON object", "Save the adapter again")
    return config


def base_of(folder: Path) -> Path:
    """The checkpoint that an adapter belongs to; the folder itself if it is no adapter.

    A relative path is looked for from the adapter's folder, then from the working folder.

    Raises:
        UsageError: The base is no local folder.
        AuditError: ``adapter_config.json`` cannot be read.
    """
    if not is_adapter(folder):
        return folder
    name = read_adapter(folder).get("base_model_name_or_path")
    places = [folder / name, Path(name)] if isinstance(name, str) and name and "\0" not in name else []
    for place in places:
        if is_there(place / CONFIG):
            return place
    raise UsageError(
        f"{folder} is an adapter, and its base is no local checkpoint folder",
        f"Write the path of the base as base_model_name_or_path into {ADAPTER_CONFIG}, or merge the adapter",
    )

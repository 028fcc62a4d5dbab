"""One file that holds tensors and a JSON record, and belongs to one run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from pfl_audit.errors import AuditError, another_run
from pfl_audit.files import atomic_write
from pfl_audit.inputs import MIB, is_there
from pfl_audit.models.safetensors_file import read_header
from pfl_audit.models.tensor_file import read_tensors

_LARGEST_RECORD = 32 * MIB


def write_state(path: Path, run: str, record: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a record with its tensors in one file, whole or not at all.

    Args:
        run: Digest of what decides the run, so that no other run continues from the file.
        record: What is not a tensor, as JSON.
        tensors: Name to tensor.
    """
    metadata = {"settings": run, "state": json.dumps(record)}
    with atomic_write(path) as file:
        file.write(safetensors.torch.save({k: v.contiguous() for k, v in tensors.items()}, metadata=metadata))


def read_state(path: Path, run: str) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Read back what write_state wrote; None if there is no file: the start of a run.

    Raises:
        UsageError: The file belongs to a run with other data or settings.
    """
    if not is_there(path):
        return None
    try:
        header = read_header(path, largest=_LARGEST_RECORD)
    except AuditError as error:
        raise damaged(path) from error
    if header.metadata.get("settings") != run:
        raise another_run(path.parent)
    try:
        record = json.loads(header.metadata["state"])
        if not isinstance(record, dict):
            raise TypeError("it is no object")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged(path) from error
    return record, read_tensors(path, header.entries)


def damaged(path: Path) -> AuditError:
    """The error of a file that cannot be read."""
    return AuditError(f"{path} is damaged", "Delete it to begin the run again")

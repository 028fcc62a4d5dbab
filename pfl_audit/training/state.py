"""A training run on disk: enough to go on after SIGKILL and end with the same weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import atomic_write
from pfl_audit.inputs import MIB, is_there
from pfl_audit.models.safetensors_file import read_header
from pfl_audit.models.tensor_file import read_tensors

_OPTIMIZER = "optimizer/"
_LARGEST_RECORD = 32 * MIB


@dataclass
class RunState:
    """How far a central run has come.

    Attributes:
        step: Optimiser steps done.
        history: One entry a look at the validation part, and the training loss since the last.
        refusals: Queries that were trained as refusals.
    """

    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    refusals: int = 0


def write_state(path: Path, run: str, record: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a run's state in one file, whole or not at all.

    Args:
        path: Of the file.
        run: Digest of what decides the run, so that no other run goes on from it.
        record: What is not a tensor, as JSON.
        tensors: Name to tensor.
    """
    metadata = {"settings": run, "state": json.dumps(record)}
    with atomic_write(path) as file:
        file.write(safetensors.torch.save({k: v.contiguous() for k, v in tensors.items()}, metadata=metadata))


def read_state(path: Path, run: str) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Read back what write_state wrote; None where there is no file: the start of a run.

    Raises:
        UsageError: The file belongs to a run with other data or settings.
        AuditError: It is damaged.
    """
    if not is_there(path):
        return None
    try:
        header = read_header(path, largest=_LARGEST_RECORD)
    except AuditError as error:
        raise _damaged(path) from error
    if header.metadata.get("settings") != run:
        raise UsageError(
            f"{path.parent} holds a run with other data or settings",
            "Name another --out, or repeat the command that began it",
        )
    try:
        record = json.loads(header.metadata["state"])
        if not isinstance(record, dict):
            raise TypeError("it is no object")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged(path) from error
    return record, read_tensors(path, header.entries)


def save_state(path: Path, run: str, state: RunState, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write weights, the optimiser's moments, the state of chance and ``state``."""
    tensors = {f"weights/{name}": parameter.detach() for name, parameter in network.named_parameters()}
    for name, parameter in network.named_parameters():
        for moment, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{_OPTIMIZER}{moment}/{name}"] = value
    tensors["rng"] = torch.get_rng_state()
    if (device := _cuda(network)) is not None:
        tensors["rng-cuda"] = torch.cuda.get_rng_state(device)
    write_state(path, run, asdict(state), tensors)


def restore_state(path: Path, run: str, network: nn.Module, optimizer: torch.optim.Optimizer) -> RunState:
    """Read back what save_state wrote; a missing file is the start of a run.

    Raises:
        UsageError: The file belongs to a run with other data or settings.
        AuditError: It is damaged.
    """
    found = read_state(path, run)
    if found is None:
        return RunState()
    record, tensors = found
    try:
        state = RunState(**record)
        parameters = dict(network.named_parameters())
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(tensors[f"weights/{name}"])
        for key, value in tensors.items():
            if key.startswith(_OPTIMIZER):
                moment, name = key.removeprefix(_OPTIMIZER).split("/", 1)
                # Steps are counted off the device, as torch's own load_state_dict leaves them.
                held = value if moment == "step" else value.to(parameters[name].device)
                optimizer.state[parameters[name]][moment] = held
        torch.set_rng_state(tensors["rng"])
        if (device := _cuda(network)) is not None and "rng-cuda" in tensors:
            torch.cuda.set_rng_state(tensors["rng-cuda"], device)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise _damaged(path) from error
    return state


def _damaged(path: Path) -> AuditError:
    return AuditError(f"{path} is damaged", "Delete it to begin the run again")


def _cuda(network: nn.Module) -> torch.device | None:
    """The network's device, where it draws its own chance."""
    device = next(network.parameters()).device
    return device if device.type == "cuda" else None

"""A training run on disk: enough to go on after SIGKILL and end with the same weights."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pfl_audit.errors import UsageError
from pfl_audit.models.tensor_record import damaged, read_state, write_state

_OPTIMIZER = "optimizer/"


@dataclass
class RunState:
    """How far a training has come.

    Attributes:
        step: Optimiser steps done.
        history: One entry for each validation.
        losses: Training losses of the steps since the last validation.
        refusals: Queries that were trained as refusals, counted at the end.
        processes: Number of processes that train together.
    """

    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    refusals: int = 0
    processes: int = 1


def save_state(path: Path, run: str, state: RunState, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write weights, moments of the optimiser, states of torch's random generators, and ``state``."""
    tensors = {f"weights/{name}": parameter.detach() for name, parameter in network.named_parameters()}
    for name, parameter in network.named_parameters():
        for moment, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{_OPTIMIZER}{moment}/{name}"] = value
    tensors["rng"] = torch.get_rng_state()
    if (device := _cuda(network)) is not None:
        tensors["rng-cuda"] = torch.cuda.get_rng_state(device)
    write_state(path, run, asdict(state), tensors)


def restore_state(
    path: Path, run: str, network: nn.Module, optimizer: torch.optim.Optimizer, processes: int = 1
) -> RunState:
    """Read back what save_state wrote; a missing file is the start of a run.

    Args:
        processes: Number of processes that train together: with another one dropout would draw other numbers.

    Raises:
        UsageError: The file belongs to a run with other data, settings or number of processes.
    """
    found = read_state(path, run)
    if found is None:
        return RunState(processes=processes)
    record, tensors = found
    try:
        state = RunState(**record)
        if state.processes != processes:
            raise UsageError(
                f"{path.parent} holds a run of {state.processes} processes, and this one has {processes}",
                "Repeat the command that began it, or name another --out",
            )
        parameters = dict(network.named_parameters())
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(tensors[f"weights/{name}"])
        for key, value in tensors.items():
            if key.startswith(_OPTIMIZER):
                moment, name = key.removeprefix(_OPTIMIZER).split("/", 1)
                # Steps are counted off the device, except by fused kernels, as torch's own load_state_dict has it.
                fused = optimizer.defaults.get("fused")
                held = value if moment == "step" and not fused else value.to(parameters[name].device)
                optimizer.state[parameters[name]][moment] = held
        torch.set_rng_state(tensors["rng"])
        if (device := _cuda(network)) is not None and "rng-cuda" in tensors:
            torch.cuda.set_rng_state(tensors["rng-cuda"], device)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise damaged(path) from error
    return state


def _cuda(network: nn.Module) -> torch.device | None:
    """The device of the network if it has a random generator of its own."""
    device = next(network.parameters()).device
    return device if device.type == "cuda" else None

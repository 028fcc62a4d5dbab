"""How this process was started: by itself, or by torchrun or accelerate as one of several; only one of these speaks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pfl_audit.errors import UsageError

ALONE: Final = "Leave out torchrun or accelerate"
_LOCAL: Final = "LOCAL_RANK"
_SIZE: Final = "WORLD_SIZE"


@dataclass(frozen=True)
class Launch:
    """Place of a process among those of one training.

    Attributes:
        rank: Number of the process, from 0; process 0 leads.
        size: Number of processes.
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0


def launch(environment: Mapping[str, str] = os.environ) -> Launch:
    """What the variables of torchrun and accelerate say: one process where LOCAL_RANK or WORLD_SIZE is not set.

    Raises:
        UsageError: They are not those of a launcher.
    """
    if _LOCAL not in environment or _SIZE not in environment:
        return Launch()
    rank, size = (_number(environment, name) for name in (_LOCAL, _SIZE))
    if rank >= size:
        raise UsageError(f"{_LOCAL} is {rank}, and {_SIZE} {size}", f"Unset both, or start by torchrun. {ALONE}")
    return Launch(rank, size)


def check_launch(environment: Mapping[str, str] = os.environ) -> None:
    """Refuse what a launcher can be asked for and a training here does not do.

    Raises:
        UsageError: Processes of several machines, or arithmetic in low precision.
    """
    here, every = (environment.get(name) for name in ("LOCAL_WORLD_SIZE", _SIZE))
    if here is not None and here != every:
        raise UsageError(
            f"{every} processes were started on several machines, {here} of them here",
            "Start all processes on one machine; federated training by Flower takes several",
        )
    precision = environment.get("ACCELERATE_MIXED_PRECISION", "no")
    if precision != "no":
        raise UsageError(
            f"accelerate was asked for mixed precision {precision[:20]}, and train computes in float32 alone",
            "Start with --mixed_precision no",
        )


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment[name]
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise UsageError(f"the environment variable {name} is no number", f"Unset it. {ALONE}")
    return int(text)


def silence_followers() -> None:
    """Print nothing from a process that does not lead, but for the traceback that is asked for."""
    try:
        follows = not launch().leads
    except UsageError:  # the command says so
        return
    if follows:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        if os.environ.get("PFL_AUDIT_TRACEBACK") != "1":
            os.dup2(nowhere, 2)


def require_one_process(what: str) -> None:
    """Refuse several processes.

    Args:
        what: Command or option that is one process.

    Raises:
        UsageError: Several were started.
    """
    if (size := launch().size) > 1:
        raise UsageError(
            f"{what} is one process, and {size} were started",
            f"{ALONE}: --workers and --cluster divide an audit, Flower a federation",
        )


def require_shared_training(mode: str) -> None:
    """Refuse several processes for a training that they cannot share, and what their launcher was asked for.

    Args:
        mode: Mode of the training.

    Raises:
        UsageError: They were started on several machines, for low precision, or for clients of a federation.
    """
    if launch().size == 1:
        return
    check_launch()
    if mode not in ("central", "central-dp"):
        require_one_process(f"train --mode {mode}")

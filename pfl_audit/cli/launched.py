"""Commands that torchrun or accelerate starts as several processes: which of them there are, and who speaks."""

from __future__ import annotations

import os

from pfl_audit.errors import UsageError
from pfl_audit.launcher import ALONE, check_launch, launch


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

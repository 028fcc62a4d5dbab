"""State of a client's unfinished round on disk, so that SIGKILL loses seconds of a round that takes hours."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from torch import Tensor

from pfl_audit.models.tensor_record import read_state, write_state
from pfl_audit.training.federated.messages import Norms

FILE = "round-state.safetensors"
_SECONDS = 20.0
_SHARE = 20.0
"""Least time between two saves, as a multiple of what a save takes."""

Sum = tuple[int, Tensor, Counter[str], list[float], list[Norms]]
"""Providers done, sum of their clipped updates, tally, losses, norms."""


class Partial:
    """Stores the sum over the finished providers, before any noise; readable by the owner only.

    Args:
        run: Digest of what decides it.
        seconds: Between two saves.
    """

    def __init__(self, folder: Path, run: str, seconds: float = _SECONDS) -> None:
        self._path = folder / FILE
        self._run = run
        self._seconds = seconds
        self._saved = time.monotonic()

    def save(self, round_number: int, client: int, done: Sum, *, at_once: bool = False) -> None:
        """Store a sum, unless one was stored a moment ago and ``at_once`` is not asked for."""
        if not at_once and time.monotonic() - self._saved < self._seconds:
            return
        providers, total, tally, losses, norms = done
        record = {
            "round": round_number,
            "client": client,
            "providers": providers,
            "tally": dict(tally),
            "losses": losses,
            "norms": norms,
        }
        began = time.monotonic()
        write_state(self._path, self._run, record, {"total": total})
        self._saved = time.monotonic()
        self._seconds = max(self._seconds, _SHARE * (self._saved - began))

    def load(self, round_number: int, client: int) -> Sum | None:
        """The sum stored for this round and client, or None."""
        found = read_state(self._path, self._run)
        if found is None:
            return None
        record, tensors = found
        if (record["round"], record["client"]) != (round_number, client):
            return None
        norms: list[Norms] = [(before, after) for before, after in record.get("norms", [])]
        return record["providers"], tensors["total"], Counter(record["tally"]), record["losses"], norms

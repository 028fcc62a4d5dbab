"""State of a client's optimiser between its rounds, on disk, for optimisers that keep one."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from torch import Tensor

from pfl_audit.models.tensor_record import read_state, write_state

FILES = "optimizer-*.safetensors"


@runtime_checkable
class KeepsState(Protocol):
    """An optimiser whose state outlives a local training."""

    def read_state(self) -> dict[str, Tensor]:
        """What the next local training of the client begins with, by name."""

    def write_state(self, state: dict[str, Tensor]) -> None:
        """Begin with what ``read_state`` returned."""


class OptimizerMemory:
    """Stores the state after a round until the client's next but one, so that a round that was cut is repeated exactly.

    Args:
        run: Digest of what decides it.
    """

    def __init__(self, folder: Path, run: str) -> None:
        self._folder = folder
        self._run = run

    def load(self, round_number: int, client: int) -> dict[str, Tensor]:
        """State after the client's last round before this one; empty in its first."""
        before = [number for number in self._rounds(client) if number < round_number]
        found = read_state(self._path(client, max(before)), self._run) if before else None
        return found[1] if found else {}

    def save(self, round_number: int, client: int, state: dict[str, Tensor]) -> None:
        """Store the state after a round, and drop all but the one that the round began with."""
        write_state(self._path(client, round_number), self._run, {}, state)
        for number in sorted(number for number in self._rounds(client) if number < round_number)[:-1]:
            self._path(client, number).unlink()

    def _rounds(self, client: int) -> list[int]:
        return [int(path.stem.rsplit("-", 1)[1]) for path in self._folder.glob(f"optimizer-{client}-*.safetensors")]

    def _path(self, client: int, round_number: int) -> Path:
        return self._folder / f"optimizer-{client}-{round_number}.safetensors"

"""Server strategies: how a round's update is applied. They are found by entry point."""

from __future__ import annotations

from typing import Final, Protocol

from torch import Tensor

from pfl_audit.registry import Registry


class ServerStrategy(Protocol):
    """Maps the old weights and the mean update of a round to the new weights."""

    def step(self, weights: Tensor, update: Tensor, memory: dict[str, Tensor]) -> Tensor:
        """Return the new weights.

        Args:
            weights: float32 (size,).
            update: Mean of the clients' updates, or the noisy sum over the denominator, float32 (size,).
            memory: State of the strategy between rounds, such as momentum; saved with the run.
        """


class FedAvg:
    """Add the mean update (privacy-aware-docvqa, section 6.1)."""

    def step(self, weights: Tensor, update: Tensor, memory: dict[str, Tensor]) -> Tensor:
        """Return ``weights + update``."""
        return weights + update


FEDAVG: Final = FedAvg()
STRATEGIES: Final[Registry[ServerStrategy]] = Registry("pfl_audit.strategies", "server strategy", ("step",))

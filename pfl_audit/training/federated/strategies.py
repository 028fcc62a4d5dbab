"""Server strategies by name: how a round's update is applied. Another strategy is one more entry here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from torch import Tensor

from pfl_audit.errors import UsageError


class ServerStrategy(Protocol):
    """Maps the old weights and the mean update of a round to the new weights."""

    def step(self, weights: Tensor, update: Tensor, memory: dict[str, Tensor]) -> Tensor:
        """Return the new weights.

        Args:
            weights: float32 (size,).
            update: Mean of the clients' updates, or the noisy sum over the denominator, float32 (size,).
            memory: State of the strategy between rounds, such as momentum; saved with the run.
        """
        ...


class FedAvg:
    """Add the mean update (privacy-aware-docvqa, section 6.1)."""

    def step(self, weights: Tensor, update: Tensor, memory: dict[str, Tensor]) -> Tensor:
        """Return ``weights + update``."""
        return weights + update


STRATEGIES: Final[Mapping[str, ServerStrategy]] = {"fedavg": FedAvg()}


def strategy_named(name: str) -> ServerStrategy:
    """The strategy of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in STRATEGIES:
        raise UsageError(f"there is no server strategy '{name}'", f"Choose one of: {', '.join(STRATEGIES)}")
    return STRATEGIES[name]

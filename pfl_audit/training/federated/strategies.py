"""Server strategies: how a round's update is applied. They are found by entry point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor, nn

from pfl_audit.registry import Registry
from pfl_audit.training.optimizers import make_optimizer


class ServerStrategy(Protocol):
    """Maps the old weights and the mean update of a round to the new weights."""

    def step(self, weights: Tensor, update: Tensor, memory: dict[str, Tensor], rate: float) -> Tensor:
        """Return the new weights.

        Args:
            weights: float32 (size,).
            update: Mean of the clients' updates, or the noisy sum over the denominator, float32 (size,).
            memory: State of the strategy between rounds, such as momentum; saved with the run.
            rate: Server learning rate, for strategies that have one.
        """


class FedAvg:
    """Add the mean update (privacy-aware-docvqa, section 6.1)."""

    def step(self, weights: Tensor, update: Tensor, memory: dict[str, Tensor], rate: float) -> Tensor:
        """Return ``weights + update``."""
        return weights + update


@dataclass(frozen=True)
class FedAvgM:
    """Server momentum (federated-docvqa-pilot, section 3.2): m = beta m + (1 - beta) update."""

    beta: float = 0.9

    def step(self, weights: Tensor, update: Tensor, memory: dict[str, Tensor], rate: float) -> Tensor:
        """Return ``weights + m``."""
        memory["momentum"] = _average(memory.get("momentum"), update, self.beta)
        return weights + memory["momentum"]


@dataclass(frozen=True)
class FedAdam:
    """Adaptive server optimiser: weights + rate m / sqrt(v + epsilon) (federated-docvqa-pilot, sections 3.2 and 5.2).

    Attributes:
        epsilon: Summand under the root.
        reference: As the paper's code has it: rate m / (sqrt(v) + epsilon), with v starting at epsilon squared.
        corrected: Bias correction as in the paper's code, where the corrected moments replace the running ones.
    """

    epsilon: float = 1e-5
    beta1: float = 0.9
    beta2: float = 0.99
    reference: bool = False
    corrected: bool = False

    def step(self, weights: Tensor, update: Tensor, memory: dict[str, Tensor], rate: float) -> Tensor:
        """Return the weights after an adaptive step."""
        start = torch.full_like(update, self.epsilon**2) if self.reference else None
        first = _average(memory.get("first"), update, self.beta1)
        second = _average(memory.get("second", start), update.square(), self.beta2)
        rounds = memory.get("rounds", torch.zeros(1)) + 1
        if self.corrected:
            first = first / (1 - self.beta1 ** float(rounds))
            second = second / (1 - self.beta2 ** float(rounds))
        memory.update(first=first, second=second, rounds=rounds)
        root = second.sqrt() + self.epsilon if self.reference else (second + self.epsilon).sqrt()
        return weights + rate * first / root


@dataclass(frozen=True)
class OptimizerStep:
    """Step of an optimiser along the mean gradient of a round, on all trained numbers as one vector (DP-SGD).

    Attributes:
        name: Name of the optimiser.
        learning_rate: Its learning rate, in place of that of the server.
        decay: Weight decay.
    """

    name: str
    learning_rate: float
    decay: float

    def step(self, weights: Tensor, update: Tensor, memory: dict[str, Tensor], rate: float) -> Tensor:
        """Return the weights after a step; ``update`` is minus the mean gradient."""
        vector = nn.Parameter(weights.clone())
        optimizer = make_optimizer(self.name, [vector], self.learning_rate, self.decay)
        if memory:
            optimizer.state[vector].update(memory)
        vector.grad = -update
        optimizer.step()
        memory.update((name, value) for name, value in optimizer.state[vector].items() if isinstance(value, Tensor))
        return vector.detach()


def _average(moment: Tensor | None, new: Tensor, beta: float) -> Tensor:
    """Exponential moving average, which starts at 0."""
    return (1 - beta) * new if moment is None else beta * moment + (1 - beta) * new


FEDAVG: Final = FedAvg()
FEDAVGM: Final = FedAvgM()
FEDADAM: Final = FedAdam()
FEDADAM_REFERENCE: Final = FedAdam(epsilon=1e-3, reference=True)
FEDADAM_CORRECTED: Final = FedAdam(epsilon=1e-3, reference=True, corrected=True)
STRATEGIES: Final[Registry[ServerStrategy]] = Registry("pfl_audit.strategies", "server strategy", ("step",))

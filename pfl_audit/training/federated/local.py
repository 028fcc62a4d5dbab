"""One local training: from the round's weights, over one provider's or client's queries, with a fresh optimiser."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Never, Protocol

import torch
from torch import Tensor

from pfl_audit.models.training_protocol import TrainableModel, TrainingSet
from pfl_audit.training.federated.optimizer_memory import KeepsState, OptimizerMemory
from pfl_audit.training.federated.secure_rng import seed_for
from pfl_audit.training.federated.settings import FederatedSettings
from pfl_audit.training.federated.together import Job, SharedPass, batches_of, jobs_together, train_together
from pfl_audit.training.loop import prepare_process, set_training, take_step
from pfl_audit.training.optimizers import make_optimizer
from pfl_audit.training.trainable import Trainable


class Trainer(Protocol):
    """Does local trainings."""

    trainable: Trainable
    together: int
    """Number of local trainings that share a pass of the network."""

    def train(self, weights: Tensor, rows: Sequence[int], *who: int) -> tuple[Tensor, float]:
        """One training: as LocalTrainer.train."""

    def train_each(self, weights: Tensor, jobs: Sequence[Job]) -> Iterator[tuple[Tensor, float]]:
        """Many from the same weights, results in the order of the jobs."""

    def batches(self, rows: Sequence[int], *who: int) -> Iterator[list[int]]:
        """Rows of the batches of a training."""


@dataclass(eq=False)
class LocalTrainer:
    """Trains for a client, or for one of its providers (algorithm 1, line 15).

    Pages were encoded and words tokenised before; a training sets the trainable tensors back and
    touches nothing else of the model.

    Attributes:
        model: Its network is trained in place; its weights afterwards mean nothing.
        trainable: Parameters that are trained.
        examples: All examples, by row.
        memory: Keeps the state of an optimiser that has one between a client's rounds (FedShampoo); None where every
            training begins with a fresh one, as under privacy, whose accounting covers no state of that kind.
    """

    model: TrainableModel[Never]
    trainable: Trainable
    examples: TrainingSet
    settings: FederatedSettings
    memory: OptimizerMemory | None = None

    def __post_init__(self) -> None:
        """Prepare the process, and decide how many trainings share a pass."""
        prepare_process()
        names = self.trainable.names
        self.together = 1 if self.memory else jobs_together(self.examples, names, self.settings)

    @property
    def numbers(self) -> int:
        """Number of parameters of the whole network, frozen ones included."""
        return sum(parameter.numel() for parameter in self.model.network.parameters())

    def train_each(self, weights: Tensor, jobs: Sequence[Job]) -> Iterator[tuple[Tensor, float]]:
        """Train for each from the same weights, group by group."""
        return (found for group in self.groups(jobs) for found in self.train_group(weights, group))

    def groups(self, jobs: Sequence[Job]) -> list[Sequence[Job]]:
        """The jobs in order, those together that share a pass."""
        return [jobs[at : at + self.together] for at in range(0, len(jobs), self.together)]

    def train_group(self, weights: Tensor, jobs: Sequence[Job]) -> list[tuple[Tensor, float]]:
        """Train for the jobs of a group, results in their order."""
        if self.together == 1 or not isinstance(self.examples, SharedPass):
            return [self.train(weights, rows, *who) for rows, who in jobs]
        set_training(self.model.network, self.model.page_encoder)
        found = train_together(self.trainable, self.examples, self.settings, weights, jobs)
        self.model.network.eval()
        return found

    def train(self, weights: Tensor, rows: Sequence[int], *who: int) -> tuple[Tensor, float]:
        """Train on some examples.

        Args:
            weights: Weights to begin with, float32 (size,).
            rows: Rows of the examples.
            who: Round, client and perhaps provider: they and the seed decide order, dropout and masked tokens.

        Returns:
            New weights minus ``weights``, float32 (size,), and the mean loss of the steps (NaN where it
            was no longer finite; the rest of the training is then left out).
        """
        settings, losses = self.settings, list[float]()
        self.trainable.write(weights)
        optimizer = make_optimizer(
            settings.optimizer, self.trainable.parameters, settings.learning_rate, settings.weight_decay
        )
        kept = optimizer if self.memory and isinstance(optimizer, KeepsState) else None
        if self.memory and kept:
            kept.write_state(self.memory.load(who[0], who[1]))
        set_training(self.model.network, self.model.page_encoder)
        torch.manual_seed(seed_for(settings.seed, "dropout", *who))
        self.examples.reseed(seed_for(settings.seed, "mask", *who))
        for batch in self.batches(rows, *who):
            every = (self.examples.loss(some) + self._proximal(weights) for some in [batch])
            losses.append(take_step(optimizer, self.trainable, every))
            if not math.isfinite(losses[-1]):
                return torch.full_like(weights, torch.nan), math.nan
        self.model.network.eval()
        if self.memory and kept:
            self.memory.save(who[0], who[1], kept.read_state())
        return self.trainable.read() - weights, sum(losses) / len(losses)

    def batches(self, rows: Sequence[int], *who: int) -> Iterator[list[int]]:
        """Rows of the batches of a training, in their order."""
        return batches_of(self.settings, rows, self.examples.length, who)

    def _proximal(self, weights: Tensor) -> Tensor | float:
        """Mu / 2 times the squared distance from the weights of the round, summed over tensors (FedProx)."""
        if not self.settings.proximal:
            return 0.0
        return self.settings.proximal / 2 * self.trainable.squared_distance(weights)

"""One local training: from the round's weights, over one provider's or client's queries, with a fresh optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from pfl_audit.models.memory import keep_freed_memory
from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.training.central import batch_loss
from pfl_audit.training.examples import Batch, Examples
from pfl_audit.training.federated.chance import seed_for
from pfl_audit.training.federated.settings import FederatedSettings
from pfl_audit.training.optimizers import make_optimizer
from pfl_audit.training.trainable import Trainable

Loss = Callable[[Vt5, Batch], Tensor]
Job = tuple[Sequence[int], tuple[int, ...]]
"""Rows of the queries, and whose they are: round, client and perhaps provider."""


class Trainer(Protocol):
    """Does local trainings."""

    trainable: Trainable

    def train(self, weights: Tensor, rows: Sequence[int], *who: int) -> tuple[Tensor, float]:
        """One training: as LocalTrainer.train."""
        ...

    def train_each(self, weights: Tensor, jobs: Sequence[Job]) -> Iterator[tuple[Tensor, float]]:
        """Many from the same weights, results in the order of the jobs."""
        ...


class LocalTrainer:
    """Trains for a client, or for one of its providers (algorithm 1, line 15).

    Pages were encoded and words tokenised before; a training sets the trainable tensors back and
    touches nothing else of the model.

    Args:
        network: Trained in place; what it is afterwards means nothing.
        trainable: What moves.
        examples: All queries, by row.
        settings: Of the run.
        loss: Of a batch; None for the mean cross-entropy of its answers.
    """

    def __init__(
        self,
        network: Vt5,
        trainable: Trainable,
        examples: Examples,
        settings: FederatedSettings,
        loss: Loss | None = None,
    ) -> None:
        # Sharp attention leaves numbers too small for the fast path of the processor; they count as 0.
        torch.set_flush_denormal(True)
        keep_freed_memory()
        self.trainable = trainable
        self._network = network
        self._examples = examples
        self._settings = settings
        self._loss = loss or self._answer_loss

    @property
    def numbers(self) -> int:
        """Of the whole network, frozen ones too."""
        return sum(parameter.numel() for parameter in self._network.parameters())

    def train_each(self, weights: Tensor, jobs: Sequence[Job]) -> Iterator[tuple[Tensor, float]]:
        """Train for one after the other, each from the same weights."""
        return (self.train(weights, rows, *who) for rows, who in jobs)

    def train(self, weights: Tensor, rows: Sequence[int], *who: int) -> tuple[Tensor, float]:
        """Train on some queries.

        Args:
            weights: To begin with, float32 (size,).
            rows: Of the queries.
            who: Round, client and perhaps provider: order and dropout are decided by them and the seed.

        Returns:
            New weights minus ``weights``, float32 (size,), and the mean loss of the steps (NaN where it
            was no longer finite; the rest of the training is then left out).
        """
        settings, losses = self._settings, []
        self.trainable.write(weights)
        optimizer = make_optimizer(
            settings.optimizer, self.trainable.parameters, settings.learning_rate, settings.weight_decay
        )
        self._network.train()
        self._network.visual_embedding.image_model.train(not settings.freeze_visual)
        torch.manual_seed(seed_for(settings.seed, "dropout", *who))
        for batch in batches(rows, self._examples.length, settings, seed_for(settings.seed, "order", *who)):
            optimizer.zero_grad()
            loss = self._loss(self._network, self._examples.batch(batch))
            losses.append(float(loss.detach()))
            if not math.isfinite(losses[-1]):
                return torch.full_like(weights, torch.nan), math.nan
            torch.autograd.backward(loss)
            optimizer.step()
        self._network.eval()
        return self.trainable.read() - weights, sum(losses) / len(losses)

    def _answer_loss(self, network: Vt5, batch: Batch) -> Tensor:
        return batch_loss(network, batch, pages_are_features=self._settings.freeze_visual)


def batches(
    rows: Sequence[int], length: Callable[[int], int], settings: FederatedSettings, seed: int
) -> Iterator[list[int]]:
    """A local training's batches: every row once an epoch, shuffled, similar lengths together.

    Args:
        rows: Of the queries.
        length: Of a query, by row.
        settings: Epochs, size of a batch, and most steps.
        seed: Seed of the order.
    """
    rng, size, steps = np.random.default_rng(seed), settings.batch_size, 0
    for _ in range(settings.local_epochs):
        shuffled = [rows[at] for at in rng.permutation(len(rows))]
        by_length = sorted(shuffled, key=length)
        dealt = [by_length[at : at + size] for at in range(0, len(rows), size)]
        for at in rng.permutation(len(dealt)):
            if steps == settings.local_steps:
                return
            steps += 1
            yield dealt[at]

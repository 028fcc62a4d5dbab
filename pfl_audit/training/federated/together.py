"""Several local trainings in one pass: frozen weights multiply the examples of all of them at once.

Each has a copy of the trained tensors, an optimiser and random numbers of its own, so that the updates are those of
``LocalTrainer.train``, one after the other, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from pfl_audit.training.batching import local_batches
from pfl_audit.training.federated.secure_rng import seed_for
from pfl_audit.training.federated.settings import FederatedSettings
from pfl_audit.training.optimizers import make_optimizer
from pfl_audit.training.trainable import Trainable

Job = tuple[Sequence[int], tuple[int, ...]]
"""Rows of the examples, and whose they are: round, client and perhaps provider."""
_EXAMPLES = 16
"""Examples of a pass: more of them no longer pay for the memory."""


@runtime_checkable
class SharedPass(Protocol):
    """Training examples of several owners that one pass can compute."""

    def length(self, row: int) -> int:
        """As TrainingSet.length."""

    def can_share(self, trained: Sequence[str]) -> bool:
        """Whether ``owner_losses`` covers the model where the tensors of these names are trained."""

    def owner_losses(
        self,
        rows: Sequence[Sequence[int]],
        tensors: Mapping[int, Sequence[Tensor]],
        generators: Sequence[torch.Generator],
    ) -> Tensor:
        """The loss of the batch of every owner, float (owners,), differentiable in its tensors.

        Args:
            rows: Examples of every owner, at least one each.
            tensors: Trained tensor of the network, by ``id``, to that of every owner.
            generators: Of the dropout of every owner.
        """


def jobs_together(examples: object, trained: Sequence[str], settings: FederatedSettings) -> int:
    """Number of local trainings that share a pass; 1 where each is trained alone."""
    if isinstance(examples, SharedPass) and examples.can_share(trained):
        return max(1, _EXAMPLES // settings.batch_size)
    return 1


def batches_of(
    settings: FederatedSettings, rows: Sequence[int], length: Callable[[int], int], who: tuple[int, ...]
) -> Iterator[list[int]]:
    """Rows of the batches of a local training, in their order; ``who`` is as in a job."""
    order = seed_for(settings.seed, "order", *who)
    return local_batches(rows, length, settings.batch_size, settings.local_epochs, settings.local_steps, order)


def train_together(
    trainable: Trainable, examples: SharedPass, settings: FederatedSettings, weights: Tensor, jobs: Sequence[Job]
) -> list[tuple[Tensor, float]]:
    """Update and mean loss of every job, as of LocalTrainer.train; the network is in training mode."""
    owners = [_Owner(trainable, examples, settings, weights, job) for job in jobs]
    for step in range(max(len(owner.batches) for owner in owners)):
        active = [owner for owner in owners if step < len(owner.batches) and owner.finite]
        if not active:
            break
        tensors = {
            id(parameter): [owner.tensors[at] for owner in active] for at, parameter in enumerate(trainable.parameters)
        }
        found = examples.owner_losses(
            [owner.batches[step] for owner in active], tensors, [owner.generator for owner in active]
        )
        if settings.proximal:
            distances = [trainable.squared_distance(weights, owner.tensors) for owner in active]
            found = found + settings.proximal / 2 * torch.stack(distances)
        for owner, loss in zip(active, found.tolist(), strict=True):
            owner.losses.append(loss)
        finite = [at for at, owner in enumerate(active) if owner.finite]
        if not finite:
            break
        torch.autograd.backward(found[finite].sum())
        for at in finite:
            active[at].optimizer.step()
            active[at].optimizer.zero_grad()
    return [owner.result(weights) for owner in owners]


class _Owner:
    """One of the local trainings."""

    def __init__(
        self, trainable: Trainable, examples: SharedPass, settings: FederatedSettings, weights: Tensor, job: Job
    ) -> None:
        rows, who = job
        parts = zip(trainable.parts(weights), trainable.parameters, strict=True)
        self.tensors = [nn.Parameter(part.to(parameter, copy=True)) for part, parameter in parts]
        self.optimizer = make_optimizer(settings.optimizer, self.tensors, settings.learning_rate, settings.weight_decay)
        self.generator = torch.Generator().manual_seed(seed_for(settings.seed, "dropout", *who))
        self.batches = list(batches_of(settings, rows, examples.length, who))
        self.losses: list[float] = []

    @property
    def finite(self) -> bool:
        """Whether the last loss was finite."""
        return not self.losses or math.isfinite(self.losses[-1])

    def result(self, weights: Tensor) -> tuple[Tensor, float]:
        """As LocalTrainer.train."""
        if not self.finite:
            return torch.full_like(weights, torch.nan), math.nan
        moved = [part.detach().reshape(-1).to("cpu", torch.float32) for part in self.tensors]
        return torch.cat(moved) - weights, sum(self.losses) / len(self.losses)

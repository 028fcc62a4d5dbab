"""Local trainings of the mode central-dp, divided among the processes of a launcher: each whole in one of them.

The process that leads draws providers, clips, sums, adds the noise and keeps the secrets, as it does alone. The others
get weights and jobs, and give back updates, so that the guarantee and the updates are those of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.federated.together import Job
from pfl_audit.training.torch_group import TorchGroup


class DividedTrainer:
    """As of Trainer, in the process that leads.

    Args:
        trainer: Trains here; its trained tensors and examples are those of all processes.
        phase: Name of the phase, by which the others make their trainer.
    """

    def __init__(self, trainer: LocalTrainer, group: TorchGroup, phase: str) -> None:
        self.trainable, self.together = trainer.trainable, trainer.together
        self.train, self.batches = trainer.train, trainer.batches  # one training is done in this process
        self._trainer, self._group = trainer, group
        group.tell({"phase": phase})

    def train_each(self, weights: Tensor, jobs: Sequence[Job]) -> Iterator[tuple[Tensor, float]]:
        """All of them from the same weights, results in the order of the jobs.

        Raises:
            AuditError: A process failed or was killed.
        """
        self._group.tell({"jobs": jobs})
        self._group.broadcast(weights.clone())
        groups, size = self._trainer.groups(jobs), self._group.size
        for at in range(0, len(groups), size):
            some = groups[at : at + size]
            found = self._trainer.train_group(weights, some[0])
            told = self._group.exchange({"losses": []})
            for rank, group in enumerate(some[1:], 1):
                updates = self._group.receive((len(group), len(weights)), rank)
                found += zip(updates, told[rank]["losses"], strict=True)
            yield from found


def follow(group: TorchGroup, make: Callable[[str], LocalTrainer]) -> None:
    """Train for the process that leads, until it has no more to train.

    Args:
        make: Maps the name of a phase to its trainer.

    Raises:
        AuditError: A process failed or was killed.
    """
    trainer: LocalTrainer | None = None
    while order := group.hear():
        if "phase" in order:
            trainer = make(str(order["phase"]))
        elif trainer is None:
            raise AssertionError("a phase begins before its trainings")
        else:
            _train(group, trainer, [(rows, tuple(who)) for rows, who in order["jobs"]])


def _train(group: TorchGroup, trainer: LocalTrainer, jobs: Sequence[Job]) -> None:
    weights = group.broadcast(torch.empty(trainer.trainable.size))
    groups = trainer.groups(jobs)
    for at in range(0, len(groups), group.size):
        mine = groups[at + group.rank : at + group.rank + 1]
        found = trainer.train_group(weights, mine[0]) if mine else []
        group.exchange({"losses": [loss for _, loss in found]})
        if found:
            group.send(torch.stack([update for update, _ in found]))

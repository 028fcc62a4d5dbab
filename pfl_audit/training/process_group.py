"""Processes that train one model together; what a training asks of them, and the one process that trains alone.

Each computes its share of every batch, and the gradients are summed, so that a step is that of one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

from torch import Tensor, nn

from pfl_audit.models.training_protocol import TrainingSet
from pfl_audit.training.trainable import Trainable


class ProcessGroup(Protocol):
    """The processes of a training, seen from one of them.

    Attributes:
        size: Number of processes.
        leads: Whether this process is the one that writes and reports.
    """

    size: int
    leads: bool

    def device(self, name: str) -> str:
        """Torch's name of this process's own device.

        Args:
            name: As the user named it.

        Raises:
            UsageError: The processes cannot have one each.
        """

    def leader_first(self) -> AbstractContextManager[None]:
        """A block that the process that leads finishes before the others begin it."""

    def losses(self, examples: TrainingSet, rows: Sequence[int]) -> Iterator[Tensor]:
        """The losses, float () each, of this process's share of a batch: over all processes they sum to its loss.

        Raises:
            UsageError: The family of the model cannot divide a batch.
        """

    def total(self, loss: float) -> float:
        """The sum of the losses of all processes, the same number in each."""

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replace gradients by their sums over the processes; None where no process has one."""

    def reseed(self, seed: int, step: int) -> None:
        """Seed dropout for a step, where the state of this process's generator is not kept with the run."""

    def require_same(self, trainable: Trainable) -> None:
        """Check that what is trained is the same in all processes.

        Raises:
            AuditError: They differ.
        """


class OneProcess:
    """As of ProcessGroup."""

    size, leads = 1, True

    def device(self, name: str) -> str:
        """The device as it was named."""
        return name

    def leader_first(self) -> AbstractContextManager[None]:
        """Any block."""
        return nullcontext()

    def losses(self, examples: TrainingSet, rows: Sequence[int]) -> Iterator[Tensor]:
        """The loss of the whole batch."""
        yield examples.loss(rows)

    def total(self, loss: float) -> float:
        """The loss itself."""
        return loss

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Does nothing."""

    def reseed(self, seed: int, step: int) -> None:
        """Does nothing: torch's generator goes on, and its state is kept with the run."""

    def require_same(self, trainable: Trainable) -> None:
        """Does nothing."""


ONE: Final = OneProcess()

"""What goes between a server and its clients in a round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

SERVER = -1
"""The server's number where clients have theirs."""


@dataclass(frozen=True)
class RoundTask:
    """A round.

    Attributes:
        number: From 1.
        clients: Who takes part, ascending; may be empty.
    """

    number: int
    clients: tuple[int, ...]


@dataclass(frozen=True)
class Report:
    """What a client sends back.

    Attributes:
        update: Its update, or with privacy the sum of its providers' clipped updates and its share of
            the noise; float32 (size,).
        tally: How many updates were kept, clipped, zero, dropped.
        losses: Mean loss of each local training.
    """

    update: Tensor
    tally: Counter[str] = field(default_factory=Counter)
    losses: tuple[float, ...] = ()


class Engine(Protocol):
    """Brings a round to the clients: in this process, or over a network."""

    def work(self, task: RoundTask) -> int:
        """How many parts ``run`` will tell of."""
        ...

    def run(self, task: RoundTask, weights: Tensor, advance: Callable[[int], None], done: int = 0) -> Iterator[Report]:
        """Let the clients of a round work, and yield what they send, in the order of their numbers.

        Args:
            task: The round.
            weights: The global model, float32 (size,).
            advance: Told of finished parts.
            done: How many of the clients reported before the run was cut; they are not asked again.
        """
        ...

"""What server and clients exchange in a round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Protocol

from torch import Tensor

SERVER = -1
"""Number of the server among the numbers of clients."""
Norms = tuple[float, float]
"""L2 norm of an update before and after the clip."""


@dataclass(frozen=True)
class RoundTask:
    """A round.

    Attributes:
        clients: Numbers of the participating clients, ascending; may be empty.
        absent: Those of them that the round went on without before the run was cut.
    """

    number: int
    clients: tuple[int, ...]
    absent: tuple[int, ...] = ()


@dataclass(frozen=True)
class Report:
    """The report of a client on a round.

    Attributes:
        update: Its update, or with privacy the sum of its providers' clipped updates and its share of
            the noise; float32 (size,).
        tally: How many updates were kept, clipped, zero, dropped; "absent" where the round goes on without the client.
        losses: Mean loss of each local training.
        norms: Norms of each provider's update that is finite, in a private round; never sent.
        queries: Number of queries that the update was trained on; 0 if it is unusable or private.
        rows: Rows of the queries that it was trained on, where the client is simulated here; never sent.
        stages: Scores of the model that it receives, has trained, and of what arrives of it, by stage, where they are
            validated; never sent.
    """

    update: Tensor
    tally: Counter[str] = field(default_factory=Counter)
    losses: tuple[float, ...] = ()
    norms: tuple[Norms, ...] = ()
    queries: int = 0
    rows: tuple[int, ...] = ()
    stages: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Engine(Protocol):
    """Runs rounds on the clients: in this process, or over a network."""

    def work(self, task: RoundTask) -> int:
        """Number of parts that ``run`` reports to ``advance``."""

    def run(self, task: RoundTask, weights: Tensor, advance: Callable[[int], None], done: int = 0) -> Iterator[Report]:
        """Let the clients of a round work, and yield what they send, in the order of their numbers.

        Args:
            weights: The global model, float32 (size,).
            advance: Called with the number of finished parts.
            done: How many of the clients reported before the run was cut; they are not asked again.
        """


def mean_norms(norms: Sequence[Norms]) -> dict[str, float]:
    """Means before and after the clip, ``norm`` and ``clipped_norm``; nothing of no updates."""
    if not norms:
        return {}
    before, after = zip(*norms, strict=True)
    return {"norm": fmean(before), "clipped_norm": fmean(after)}

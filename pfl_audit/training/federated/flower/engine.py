"""The Flower engine: brings rounds to clients on other machines."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator

import torch
from flwr.app import Message
from torch import Tensor

from pfl_audit.errors import UsageError
from pfl_audit.training.federated.codecs import CODECS
from pfl_audit.training.federated.flower.agreement import Agreement
from pfl_audit.training.federated.flower.messenger import Messenger
from pfl_audit.training.federated.flower.nodes import Nodes
from pfl_audit.training.federated.flower.round_config import ROUND, RoundConfig
from pfl_audit.training.federated.flower.scale import span
from pfl_audit.training.federated.flower.secure import secure_sum
from pfl_audit.training.federated.flower.wire import read_report, round_content
from pfl_audit.training.federated.messages import Report, RoundTask


class FlowerEngine:
    """Clients behind Flower's grid; all of a round work at the same time.

    Args:
        nodes: Who is who.
        agreement: What all parties agree on.
        sigma: Noise multiplier, or 0 without privacy.
    """

    def __init__(self, messenger: Messenger, nodes: Nodes, agreement: Agreement, run: str, sigma: float) -> None:
        self._messenger = messenger
        self._nodes = nodes
        self._agreement = agreement
        self._run = run
        self._sigma = sigma
        self._codec = CODECS.named(agreement.settings.codec)

    def work(self, task: RoundTask) -> int:
        """Clients of the round: what they do inside is their own business.

        Raises:
            UsageError: One client alone has a sum to hide in.
        """
        if self._agreement.secure and len(task.clients) == 1:
            raise UsageError(
                f"in round {task.number} client {task.clients[0]} is alone, and a sum over one client hides nothing",
                "Use --sampling providers or more --clients-per-round, or leave out --secagg",
            )
        return len(task.clients)

    def run(self, task: RoundTask, weights: Tensor, advance: Callable[[int], None], done: int = 0) -> Iterator[Report]:
        """Ask all clients at once, and yield what they send in the order of their numbers.

        Raises:
            AuditError: A client fails, refuses, or does not answer in time.
        """
        order = RoundConfig(self._run, task.number, len(task.clients), self._sigma)
        if not self._agreement.secure:
            advance(done)
            yield from self._one_by_one(order, task.clients[done:], weights, advance)
        elif task.clients and not done:
            yield self._together(order, task.clients, weights)
            advance(len(task.clients))

    def _one_by_one(
        self, order: RoundConfig, clients: tuple[int, ...], weights: Tensor, advance: Callable[[int], None]
    ) -> Iterator[Report]:
        content = round_content(order, weights, self._codec)
        messages = [Message(content, node, ROUND, group_id=str(order.number)) for node in self._nodes.of(clients)]
        waiting, early = deque(clients), dict[int, Report]()
        for answer in self._messenger.ask(messages):
            number = self._nodes.number(answer.metadata.src_node_id)
            early[number] = read_report(answer.content, self._codec, len(weights))
            advance(1)
            while waiting and waiting[0] in early:
                yield early.pop(waiting.popleft())

    def _together(self, order: RoundConfig, clients: tuple[int, ...], weights: Tensor) -> Report:
        """The sum of all, as one report. Without privacy its last number counts the usable updates."""
        privacy = self._agreement.privacy
        vector = weights.numpy()
        total = secure_sum(self._messenger, self._nodes.of(clients), vector, order, span(order, privacy))
        tally = Counter[str]()
        if privacy is None:
            kept, total = round(float(total[-1])), total[:-1]
            tally.update({"kept": kept, "dropped": len(clients) - kept})
        return Report(torch.from_numpy(total.astype("float32")), +tally)

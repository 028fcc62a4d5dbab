"""The Flower engine: brings rounds to clients on other machines."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from flwr.app import Message
from torch import Tensor

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.progress import Progress
from pfl_audit.training.federated.codecs import CODECS, outgoing_model, vector_digest
from pfl_audit.training.federated.flower.agreement import Agreement
from pfl_audit.training.federated.flower.messenger import Messenger
from pfl_audit.training.federated.flower.nodes import Nodes
from pfl_audit.training.federated.flower.round_config import ROUND, RoundConfig, span
from pfl_audit.training.federated.flower.secure import secure_sum
from pfl_audit.training.federated.flower.wire import read_report, round_content
from pfl_audit.training.federated.messages import Report, RoundTask


@dataclass(eq=False)
class FlowerEngine:
    """Clients behind Flower's grid; all of a round work at the same time.

    Attributes:
        nodes: Who is who.
        agreement: What all parties agree on.
        sigma: Noise multiplier, or 0 without privacy.
        grace: Longest wait for the other clients of a round once a quorum has answered, in seconds.
        progress: Reports clients that a round goes on without.
        start: Trained tensors before the first round of the first phase, float32 (size,).
        phase: Name of the phase, whose rounds these are.
    """

    messenger: Messenger
    nodes: Nodes
    agreement: Agreement
    run_id: str
    sigma: float
    grace: float
    progress: Progress
    start: Tensor
    phase: str = ""

    def __post_init__(self) -> None:
        """Take the settings of the phase, and the codec of the messages."""
        self._agreement = self.agreement.of_phase(self.phase)
        self._codec = CODECS.named(self.agreement.settings.codec)

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

        With a quorum a client that fails has an empty report, and the tally says that it is absent.

        Raises:
            AuditError: More clients than the quorum allows fail, refuse, or do not answer in time.
        """
        order = RoundConfig(self.run_id, task.number, len(task.clients), self.sigma, self._agreement.quorum, self.phase)
        if not self._agreement.secure:
            advance(done)
            yield from self._one_by_one(order, task, done, weights, advance)
        elif task.clients and not done:
            yield self._together(order, task.clients, weights)
            advance(len(task.clients))

    def _one_by_one(
        self, order: RoundConfig, task: RoundTask, done: int, weights: Tensor, advance: Callable[[int], None]
    ) -> Iterator[Report]:
        waiting, early = deque(task.clients[done:]), dict[int, Report]()
        quorum, gone = order.quorum or len(task.clients), len(task.absent)

        def leave_out(number: int, error: AuditError) -> None:
            nonlocal gone
            gone += 1
            if gone > len(task.clients) - quorum:
                raise error
            advance(1)
            self.progress.say(f"warning: round {order.number} goes on without client {number}: {error.problem}")
            early[number] = Report(torch.zeros_like(weights), Counter(absent=1))

        here = self.nodes.present(waiting) if order.quorum else dict(zip(waiting, self.nodes.of(waiting), strict=True))
        for number in sorted(set(waiting) - set(here)):
            leave_out(
                number, AuditError(f"client {number} is away", "Start its SuperNode, then the run again: it goes on")
            )
        if self._codec.lossy:
            order = replace(order, start=vector_digest(self.start))
        content = round_content(order, outgoing_model(self._codec, weights, self.start), self._codec)
        messages = [Message(content, node, ROUND, group_id=str(order.number)) for node in here.values()]

        def absent(node: int, error: AuditError) -> None:
            leave_out(self.nodes.number(node), error)

        enough = max(0, quorum - (done - len(task.absent)))
        for answer in self.messenger.ask(messages, absent, enough, self.grace):
            number = self.nodes.number(answer.metadata.src_node_id)
            try:
                early[number] = read_report(answer.content, self._codec, len(weights))
            except AuditError as error:
                leave_out(number, error)
            else:
                advance(1)
            while waiting and waiting[0] in early:
                yield early.pop(waiting.popleft())
        yield from (early[number] for number in waiting)

    def _together(self, order: RoundConfig, clients: tuple[int, ...], weights: Tensor) -> Report:
        """The sum of all, as one report. Without privacy its last number counts the usable updates."""
        privacy = self._agreement.privacy
        vector = weights.numpy()
        total = secure_sum(self.messenger, self.nodes.of(clients), vector, order, span(order, privacy))
        tally = Counter[str]()
        if privacy is None:
            kept, total = round(float(total[-1])), total[:-1]
            tally.update({"kept": kept, "dropped": len(clients) - kept})
        return Report(torch.from_numpy(total.astype("float32")), +tally)

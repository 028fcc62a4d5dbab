"""The local engine: every client in this process, one after the other, no extra dependency."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor

from pfl_audit.training.federated.codecs import Codec, incoming_model, outgoing_model
from pfl_audit.training.federated.messages import Report, RoundTask
from pfl_audit.training.federated.worker import Worker


@dataclass(eq=False)
class LocalEngine:
    """Clients that share a process, a network and the encoded pages.

    Attributes:
        workers: Client number to its worker.
        codec: What messages go through, so that a run here is the run over a network.
        start: Trained tensors before the first round of the first phase, float32 (size,).
        score: Scores of trained tensors, float32 (size,), by name, where the stages of a round are validated.
    """

    workers: Mapping[int, Worker]
    codec: Codec
    start: Tensor
    score: Callable[[Tensor], dict[str, float]] | None = None
    _checked: bool = field(default=False, init=False)

    def work(self, task: RoundTask) -> int:
        """Local trainings of the round."""
        return sum(len(self.workers[client].drawn(task.number)) for client in task.clients)

    def run(self, task: RoundTask, weights: Tensor, advance: Callable[[int], None], done: int = 0) -> Iterator[Report]:
        """Let one client after the other work."""
        advance(self.work(RoundTask(task.number, task.clients[:done])))
        sent = self.codec.encode(outgoing_model(self.codec, weights, self.start))
        received = incoming_model(self.codec, self.codec.decode(sent, len(weights)), self.start)
        for report in self._reports(task, received, advance, done):
            update = self.codec.decode(self.codec.encode(report.update), len(weights))
            yield replace(report, update=update, stages=self._stages(received, report.update, update))

    def _stages(self, received: Tensor, trained: Tensor, arrived: Tensor) -> dict[str, dict[str, float]]:
        """Scores of the stages of a client's round (pfl-docvqa-competition, Table A5)."""
        if self.score is None:
            return {}
        return {
            "download": self.score(received),
            "finetuning": self.score(received + trained),
            "upload": self.score(received + arrived),
        }

    def _reports(self, task: RoundTask, weights: Tensor, advance: Callable[[int], None], done: int) -> Iterator[Report]:
        """Reports of the clients; without privacy side by side once one has been checked."""
        workers = [self.workers[client] for client in task.clients[done:]]
        while workers and (workers[0].private or not self._checked):
            yield workers.pop(0).report(task.number, len(task.clients), weights, advance)
            self._checked = True
        if workers:
            found = workers[0].trainer.train_each(weights, [worker.whole_job(task.number) for worker in workers])
            for worker, one in zip(workers, found, strict=True):
                yield worker.whole_report(task.number, one, advance)

"""ANLS after each stage of rounds in NF4, as in Table A5: quantization_stages.py CORPUS START OUT SEED [CLIENTS ...].

The settings are those of the tuned LoRA of communication.sh. Finetuning and upload are means over the models of the
drawn clients. Finished columns are kept in OUT.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from pfl_audit.cli.console import make_progress
from pfl_audit.documents.document import Membership
from pfl_audit.documents.readers import open_corpus
from pfl_audit.files import write_json
from pfl_audit.training.federated.clients import partition
from pfl_audit.training.federated.codecs import CODECS, Codec, incoming_model, outgoing_model
from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.federated.messages import Report, RoundTask
from pfl_audit.training.federated.secure_rng import SecretStream, new_key
from pfl_audit.training.federated.server import STATE_FILE, Server, ServerState
from pfl_audit.training.federated.settings import FederatedSettings
from pfl_audit.training.federated.worker import Worker
from pfl_audit.training.parts import split_queries
from pfl_audit.training.start import choose, open_trainable

STAGES = ("download", "finetuning", "upload", "aggregation")
QUESTIONS = 400
Score = Callable[[Tensor], float]


class StageEngine:
    """The local engine, which scores what each stage of a round leaves.

    Args:
        workers: Client number to its worker.
        score: ANLS of a vector of trained tensors.
    """

    def __init__(self, workers: dict[int, Worker], codec: Codec, start: Tensor, score: Score) -> None:
        self._workers, self._codec, self._start, self._score = workers, codec, start, score
        self.found = defaultdict[str, list[float]](list)

    def work(self, task: RoundTask) -> int:
        """Clients of the round."""
        return len(task.clients)

    def run(self, task: RoundTask, weights: Tensor, advance: Callable[[int], None], done: int = 0) -> Iterator[Report]:
        """Let one client after the other work."""
        size = len(weights)
        sent = self._codec.encode(outgoing_model(self._codec, weights, self._start))
        received = incoming_model(self._codec, self._codec.decode(sent, size), self._start)
        self.found[f"{task.number} download"].append(self._score(received))
        for client in task.clients[done:]:
            report = self._workers[client].report(task.number, len(task.clients), received, advance)
            update = self._codec.decode(self._codec.encode(report.update), size)
            for stage, change in (("finetuning", report.update), ("upload", update)):
                self.found[f"{task.number} {stage}"].append(self._score(received + change))
            yield replace(report, update=update)


def column(corpus: Path, start: Path, out: Path, codec: str, clients: int, seed: int) -> dict[str, float]:
    """Mean ANLS by round and stage."""
    kept = out / f"{codec}-{clients}-{seed}.json"
    if kept.is_file():
        found: dict[str, float] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    progress = make_progress(quiet=False)
    settings = FederatedSettings(
        rounds=2,
        clients_per_round=clients,
        local_epochs=16,
        batch_size=16,
        learning_rate=3e-3,
        seed=seed,
        codec=codec,
        validate_every=1,
    )
    model = open_trainable(start, settings, "cpu")
    _, trainable = choose(model, 6, settings)
    train, _ = split_queries(open_corpus(corpus, "blue"))
    red = open_corpus(corpus, "red")
    asked = [query for query in red.queries if red.membership[query.document.provider] is Membership.NON_MEMBER]
    asked = asked[:QUESTIONS]

    def score(weights: Tensor) -> float:
        trainable.write(weights)
        return model.validate(asked)["anls"]

    begin = trainable.read()
    trainer = LocalTrainer(model, trainable, model.examples(train, progress, out / "pages"), settings)
    held = partition(train)
    workers = {client.number: Worker(client, trainer, None) for client in held}
    engine = StageEngine(workers, CODECS.named(codec), begin, score)

    def look(state: ServerState) -> dict[str, float]:
        engine.found[f"{state.round} aggregation"].append(score(state.weights))
        return {}

    state = out / STATE_FILE
    state.unlink(missing_ok=True)  # of a column that was cut, whose scores are lost
    stream = SecretStream(new_key(seed, "stages"))
    numbers = [client.number for client in held]
    Server(settings, numbers, None, stream, state, "0" * 64).train(begin, engine, look, progress)
    means = {stage: sum(values) / len(values) for stage, values in engine.found.items()}
    write_json(kept, means, private=False)
    return means


def main(corpus: Path, start: Path, out: Path, seed: int, counts: Sequence[int] = (1, 2)) -> None:
    """Print the table."""
    out.mkdir(parents=True, exist_ok=True)
    names = [(codec, count) for codec in ("float32", "nf4") for count in counts]
    columns = [column(corpus, start, out, codec, count, seed) for codec, count in names]
    titles = [f"{codec}, {count} client{'s' * (count > 1)}" for codec, count in names]
    print(f"| round | stage | {' | '.join(titles)} |\n|{' --- |' * (2 + len(names))}")
    for number in (1, 2):
        for stage in STAGES:
            cells = [f"{100 * found[f'{number} {stage}']:.1f}" for found in columns]
            print(f"| {number} | {stage} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), int(sys.argv[4]), [int(count) for count in sys.argv[5:]] or (1, 2))

"""What the process of a client has opened, kept for the next message of the run.

A simulated node lives for the whole run, and many share a process: they share the model and the corpus. A SuperNode
starts a process for every message, where nothing is shared but the page features on disk.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.synthetic.canaries import draw_canaries
from pfl_audit.files import sha256_json
from pfl_audit.models.page_store import PAGES_FILE
from pfl_audit.models.pretraining import SelfPretraining, one_a_page
from pfl_audit.models.training_protocol import QuestionModel, TrainableModel
from pfl_audit.progress import Silent
from pfl_audit.training.canaries import PAGES
from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.codecs import CODECS, incoming_model, vector_digest
from pfl_audit.training.federated.flower.agreement import Agreement
from pfl_audit.training.federated.flower.canary_part import CanaryPart
from pfl_audit.training.federated.flower.config import ClientConfig
from pfl_audit.training.federated.flower.refusal import RefusalError
from pfl_audit.training.federated.flower.round_config import RoundConfig
from pfl_audit.training.federated.gradients import trainer_kind
from pfl_audit.training.federated.optimizer_memory import OptimizerMemory
from pfl_audit.training.federated.run import Federation
from pfl_audit.training.federated.worker import Worker
from pfl_audit.training.parts import split_queries
from pfl_audit.training.start import choose, on_pages, open_trainable
from pfl_audit.training.trainable import Trainable

_CLIENTS = 8
"""Workers and corpora that a process keeps; a worker has the tokens of its documents in memory."""


def corpus_of(data: Path) -> Corpus:
    """Training and held-out part of a corpus; read again where a file has changed."""
    return _corpus(data, _stamp(data))


def training_queries(
    agreement: Agreement, config: ClientConfig, run: str, canaries: CanaryPart | None, phase: str
) -> list[Query]:
    """The training queries of a phase, canaries last; in self-pretraining one for each page."""
    train, _ = split_queries(corpus_of(config.data))
    if canaries is not None:
        train = [*train, *_canary_queries(agreement, config, run, canaries)]
    return one_a_page(train) if phase else train


@lru_cache(maxsize=_CLIENTS)
def open_worker(
    agreement: Agreement,
    config: ClientConfig,
    run: str,
    sigma: float,
    client: Client,
    canaries: CanaryPart | None = None,
    phase: str = "",
) -> Worker:
    """The worker of a client in a phase of a run.

    Args:
        run: Id of the run.
        sigma: Noise multiplier by the client's own calculation, or 0 without privacy.
        client: Providers with rows among the training queries of the phase.
        canaries: The client's part of the canaries, or None.
        phase: Its name, empty for the one that trains on questions.
    """
    model, pages, trainable, _ = _model(config.start, agreement, config.device)
    federation = _federation(agreement, config, run, phase)
    settings, privacy = federation.settings, federation.privacy
    queries = training_queries(agreement, config, run, canaries, phase)
    own, client = _own_rows(client)
    trained: TrainableModel[Query] = pages if phase and pages else model
    examples = trained.examples([queries[row] for row in own], Silent(), config.work / run / PAGES_FILE)
    memory = None if privacy else OptimizerMemory(federation.out, federation.digest)
    trainer = trainer_kind(privacy)(trained, trainable, examples, settings, memory)
    if privacy is None:
        return Worker(client, trainer, None)
    return federation.worker(client, trainer, agreement.plan(sigma, phase), federation.stream())  # no second search


def model_from(agreement: Agreement, config: ClientConfig, order: RoundConfig, decoded: Tensor) -> Tensor:
    """The global model of a round, float32 (size,), from what its message was decoded to.

    Raises:
        RefusalError: It is a difference from another start than this client's.
    """
    codec = CODECS.named(agreement.settings.codec)
    if not codec.lossy:
        return decoded
    start = _model(config.start, agreement, config.device)[3]
    if order.start != vector_digest(start):
        raise RefusalError("the model is sent as a difference from another start", "Use the same version everywhere")
    return incoming_model(codec, decoded, start)


def _federation(agreement: Agreement, config: ClientConfig, run: str, phase: str) -> Federation:
    """A phase of a run in the client's folder; each has a key and states of its own."""
    first = agreement.pretraining
    identity: dict[str, Any] = {"run": run, "settings": agreement.digest}
    if first:
        identity["pretraining"] = first.to_dict()
    whole = Federation(
        agreement.mode, agreement.settings, agreement.privacy, config.work / run, identity, config.device,
        pretraining=first,
    )  # fmt: skip
    return whole.first(first) if phase and first else whole


def _own_rows(client: Client) -> tuple[list[int], Client]:
    """The rows of this client alone, and the client with rows among these."""
    own = sorted(row for rows in client.providers for row in rows)
    place = {row: at for at, row in enumerate(own)}
    held = tuple(tuple(place[row] for row in rows) for rows in client.providers)
    return own, Client(client.number, held, client.tags)


@lru_cache(maxsize=1)
def _model(
    start: Path, agreement: Agreement, device: str
) -> tuple[QuestionModel, SelfPretraining | None, Trainable, Tensor]:
    """The model, for questions and on its pages alone, what is trained in all phases, and its vector before that."""
    model = open_trainable(start, agreement.settings, device)
    pages = on_pages(agreement.pretraining, model)
    trainable = choose(model, agreement.lora, agreement.settings, pages)[1]
    return model, pages, trainable, trainable.read()


@lru_cache(maxsize=_CLIENTS)
def _canary_queries(agreement: Agreement, config: ClientConfig, run: str, canaries: CanaryPart) -> tuple[Query, ...]:
    """The canaries of a client, drawn into its folder of the run."""
    pointed = _model(config.start, agreement, config.device)[0].points
    folder = config.work / run / PAGES
    return tuple(draw_canaries(canaries.numbers, canaries.salt, folder, Silent(), (config.number,), pointed=pointed))


@lru_cache(maxsize=_CLIENTS)
def _corpus(data: Path, stamp: str) -> Corpus:
    return open_corpus(data, "blue")


def _stamp(data: Path) -> str:
    """Changes with the name, size or time of any file of a corpus."""
    files = [path for path in (data.rglob("*") if data.is_dir() else [data]) if path.is_file()]
    return sha256_json(sorted([str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files))

"""What the process of a client has opened, kept for the next message of the run.

A simulated node lives for the whole run, and many share a process: they share the model and the corpus. A SuperNode
starts a process for every message, where nothing is shared but the page features on disk.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.files import sha256_json
from pfl_audit.models.page_store import PAGES_FILE
from pfl_audit.models.training_protocol import QuestionModel
from pfl_audit.progress import Silent
from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.flower.agreement import Agreement
from pfl_audit.training.federated.flower.config import ClientConfig
from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.federated.optimizer_memory import OptimizerMemory
from pfl_audit.training.federated.plan import plan_privacy
from pfl_audit.training.federated.run import Federation
from pfl_audit.training.federated.settings import FederatedSettings
from pfl_audit.training.federated.worker import Worker
from pfl_audit.training.parts import split_queries
from pfl_audit.training.run import choose, open_trainable
from pfl_audit.training.trainable import Trainable

_CLIENTS = 8
"""Workers and corpora that a process keeps; a worker has the tokens of its documents in memory."""


def corpus_of(data: Path) -> Corpus:
    """Training and held-out part of a corpus; read again where a file has changed."""
    return _corpus(data, _stamp(data))


@lru_cache(maxsize=_CLIENTS)
def open_worker(agreement: Agreement, config: ClientConfig, run: str, sigma: float, client: Client) -> Worker:
    """The worker of a client in a run.

    Args:
        run: Id of the run.
        sigma: Noise multiplier by the client's own calculation, or 0 without privacy.
        client: Providers with rows among the training queries of the data.
    """
    settings, privacy, folder = agreement.settings, agreement.privacy, config.work / run
    model, trainable = _model(config.start, agreement.start, agreement.lora, settings, config.device)
    train, _ = split_queries(corpus_of(config.data))
    own, client = _own_rows(client)
    examples = model.examples([train[row] for row in own], Silent(), folder / PAGES_FILE)
    memory = None if privacy else OptimizerMemory(folder, agreement.digest)
    trainer = LocalTrainer(model, trainable, examples, settings, memory)
    if privacy is None:
        return Worker(client, trainer, None)
    identity = {"run": run, "settings": agreement.digest}
    federation = Federation(agreement.mode, settings, privacy, folder, identity, config.device)
    known = replace(privacy, noise_multiplier=sigma, epsilon=None)  # no second search for the noise
    plan = plan_privacy(agreement.mode, known, settings, agreement.clients)
    return federation.worker(client, trainer, plan, federation.stream())


def _own_rows(client: Client) -> tuple[list[int], Client]:
    """The rows of this client alone, and the client with rows among these."""
    own = sorted(row for rows in client.providers for row in rows)
    place = {row: at for at, row in enumerate(own)}
    held = tuple(tuple(place[row] for row in rows) for rows in client.providers)
    return own, Client(client.number, held, client.tags)


@lru_cache(maxsize=1)
def _model(
    start: Path, fingerprint: str, rank: int, settings: FederatedSettings, device: str
) -> tuple[QuestionModel, Trainable]:
    model = open_trainable(start, settings, device)
    return model, choose(model, rank, settings)[1]


@lru_cache(maxsize=_CLIENTS)
def _corpus(data: Path, stamp: str) -> Corpus:
    return open_corpus(data, "blue")


def _stamp(data: Path) -> str:
    """Changes with the name, size or time of any file of a corpus."""
    files = [path for path in (data.rglob("*") if data.is_dir() else [data]) if path.is_file()]
    return sha256_json(sorted([str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files))

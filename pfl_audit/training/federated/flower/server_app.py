"""Flower's ServerApp: leads the rounds, and writes the checkpoint as a local run does."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from logging import ERROR, INFO, WARNING
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import write_text
from pfl_audit.models.device import usable_device
from pfl_audit.models.training_protocol import QuestionModel
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.progress import Progress, Task
from pfl_audit.training import canaries
from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.flower.agreement import Agreement, start_fingerprint
from pfl_audit.training.federated.flower.canary_part import CanaryPart
from pfl_audit.training.federated.flower.config import ServerConfig
from pfl_audit.training.federated.flower.engine import FlowerEngine
from pfl_audit.training.federated.flower.messenger import Messenger
from pfl_audit.training.federated.flower.nodes import Nodes
from pfl_audit.training.federated.flower.round_config import FINISH, question
from pfl_audit.training.federated.kept import kept_path
from pfl_audit.training.federated.messages import Engine
from pfl_audit.training.federated.phases import lead_phases
from pfl_audit.training.federated.plan import PrivacyPlan
from pfl_audit.training.federated.run import Federation
from pfl_audit.training.parts import split_queries
from pfl_audit.training.records import held_record
from pfl_audit.training.run import conclude, finished, is_complete, trained_on, training_folder
from pfl_audit.training.start import Training, choose, on_pages, open_trainable

RUN_FILE = "federation.id"
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and write the checkpoint; start it again after a failure, and it goes on."""
    try:
        agreement = Agreement.from_config(context.run_config)
        lead_federation(grid, agreement, ServerConfig.from_config(context.run_config), Logged())
    except AuditError as error:
        log(ERROR, "pfl-audit: %s", error)
        raise


def lead_federation(grid: Grid, agreement: Agreement, config: ServerConfig, progress: Progress) -> dict[str, Any]:
    """The server's side of a whole run.

    Returns:
        As run_training.

    Raises:
        UsageError: The folder holds another run, or a setting cannot be.
        AuditError: A client is missing, refuses or fails; what is done is kept.
    """
    config = replace(config, device=usable_device(config.device))
    if start_fingerprint(Path(config.start)) != agreement.start:
        raise UsageError(f"{config.start} is not the checkpoint that the app was made with", "Make the app again")
    if is_complete(Path(config.out)):  # its record says whose it is
        return _lead(grid, agreement, config, progress)
    with training_folder(Path(config.out), None) as folder:
        record = _lead(grid, agreement, config, progress)
        folder.finish()
        return record


def _lead(grid: Grid, agreement: Agreement, config: ServerConfig, progress: Progress) -> dict[str, Any]:
    start, out = Path(config.start), Path(config.out)
    messenger = Messenger(grid, config.timeout)
    identity = {
        **agreement.to_dict(),
        "privacy": agreement.privacy.to_public() if agreement.privacy else None,
        "engine": "flower",
    }
    record = finished(out, identity, progress)
    if record is not None and not (out / RUN_FILE).is_file():
        return record
    run = _run_id(out)
    nodes = Nodes(messenger, run, agreement.clients, config.wait, progress, agreement.quorum)
    if record is not None:
        nodes.join()
    else:
        model = open_trainable(start, agreement.settings, config.device)
        coins = _plant(agreement, model, out, nodes, progress)
        nodes.join()
        pages = on_pages(agreement.pretraining, model)
        adapters, trainable = choose(model, agreement.lora, agreement.settings, pages)
        federation = Federation(
            agreement.mode, agreement.settings, agreement.privacy, out, identity, config.device,
            secure=agreement.secure, quorum=agreement.quorum or None, pretraining=agreement.pretraining,
            kept=kept_path(out) if config.keep_updates else None,
        )  # fmt: skip
        if agreement.privacy:
            held_record(out, identity, resumed=federation.begun)
        clients = [Client(number, ()) for number in range(agreement.clients)]
        plan = federation.agree(clients, progress)

        begin = trainable.read()

        def engine(part: Federation, plan: PrivacyPlan | None) -> Engine:
            sigma = plan.mechanism.noise.multiplier if plan else 0.0
            return FlowerEngine(messenger, nodes, agreement, run, sigma, config.grace, progress, begin, part.phase)

        training = Training(model, trainable, (), _held_out(config), progress, pages)
        done = lead_phases(federation, training, clients, plan, engine)
        record = {
            "mode": agreement.mode,
            "engine": "flower",
            "secure_aggregation": agreement.secure,
            **({"quorum": agreement.quorum} if agreement.quorum else {}),
            "data": {
                **({} if agreement.privacy else {"providers": sum(nodes.providers.values())}),
                "commitments": [digest for _, digest in sorted(nodes.commitments.items())],
                "before": trained_on(start),
            },
            **done,
            "lora": agreement.lora or None,
            "identity": identity,
        }
        record = conclude(model, adapters, out, record, half=config.half, coins=coins)
    _let_go(messenger, nodes, run, agreement, progress)
    (out / RUN_FILE).unlink(missing_ok=True)
    return record


def _run_id(out: Path) -> str:
    """A new id for a run that begins: clients draw a new key for it, so that no noise is ever used twice."""
    path = out / RUN_FILE
    if not path.is_file():
        write_text(path, secrets.token_hex(16))
    return path.read_text(encoding="utf-8")


def _plant(agreement: Agreement, model: QuestionModel, out: Path, nodes: Nodes, progress: Progress) -> Manifest | None:
    """Draw the coins of the canaries, or read them again, before any client joins; each is sent its part.

    They stay with the id of the run, because clients keep their parts under it.
    """
    if agreement.canaries is None:
        return None
    canaries.require_teachable(model)
    coins = canaries.draw_coins(agreement.canaries, out, pointed=model.points)
    progress.say(f"commitment of the canaries: {coins.commitment}")
    nodes.canaries = lambda client: CanaryPart.of(coins, agreement, client).to_dict()
    return coins


def _held_out(config: ServerConfig) -> list[Query]:
    return split_queries(open_corpus(Path(config.data), "blue"))[1] if config.data else []


def _let_go(messenger: Messenger, nodes: Nodes, run: str, agreement: Agreement, progress: Progress) -> None:
    """Tell the clients that the run is over. Who is away keeps its secrets, and must delete them by hand."""

    def warn(_: int, error: AuditError) -> None:
        progress.say(f"warning: not every client has deleted its secrets: {error}")

    clients = range(agreement.clients)
    try:
        here = list(nodes.present(clients).values()) if agreement.quorum else nodes.of(clients)
        if len(here) < len(clients):
            warn(
                0, AuditError(f"{len(clients) - len(here)} away", "Delete the folders of the run in their work folders")
            )
        list(messenger.ask([Message(question({"run": run}), node, FINISH) for node in here], warn))
    except AuditError as error:
        warn(0, error)


class Logged:
    """Progress in Flower's log, where ``flwr run --stream`` shows it."""

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Task]:
        """A line for every client that has answered."""

        class Line:
            def __init__(self) -> None:
                self.done = done

            def advance(self, amount: int = 1, note: str = "") -> None:
                self.done += amount
                if amount:
                    log(INFO, "%s: %d of %d %s", name, self.done, total, note)

        yield Line()

    def say(self, text: str) -> None:
        """A line."""
        log(WARNING if text.startswith("warning") else INFO, text)

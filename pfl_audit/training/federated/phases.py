"""The phases of a federated or private run: self-pretraining, where it is asked for, and then questions.

Both phases spend from one budget: the noise multiplier is that of all rounds, and one run is reserved in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.models.page_store import PAGES_FILE
from pfl_audit.training.federated import communication
from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.codecs import CODECS, payload_bytes
from pfl_audit.training.federated.divided import DividedTrainer, follow
from pfl_audit.training.federated.engine import LocalEngine
from pfl_audit.training.federated.gradients import trainer_kind
from pfl_audit.training.federated.local import LocalTrainer, Trainer
from pfl_audit.training.federated.messages import Engine
from pfl_audit.training.federated.optimizer_memory import OptimizerMemory
from pfl_audit.training.federated.plan import PrivacyPlan
from pfl_audit.training.federated.run import (
    KEY_FILE,
    Federation,
    forget_secrets,
    require_finite,
)
from pfl_audit.training.federated.server import STATE_FILE, Server, ServerState
from pfl_audit.training.federated.settings import FederatedSettings
from pfl_audit.training.federated.worker_pool import trainer_for
from pfl_audit.training.records import begin_record
from pfl_audit.training.scores import mean_over_sources
from pfl_audit.training.start import Training
from pfl_audit.training.torch_group import TorchGroup
from pfl_audit.training.trainable import Trainable


def train_federated(federation: Federation, training: Training) -> dict[str, Any]:
    """Train a model in place, with all clients in this process; a run that was cut continues.

    Returns:
        What describes it: privacy, rounds, history, tally, communication; of a private run salt, commitment and budget;
        of self-pretraining its rounds, history and tally. Nothing where another process leads.

    Raises:
        UsageError: The folder holds another run, a setting cannot be, or the budget is used up.
        AuditError: The parties are not as they must be, the ledger is damaged, or the first round moved the wrong
            tensors.
    """
    group = training.group
    if isinstance(group, TorchGroup) and not group.leads:
        follow(group, partial(_phase_trainer, federation, training))
        return {}
    clients = federation.clients(training.train)
    plan = federation.agree(clients, training.progress)
    kept: dict[str, Any] = {}
    if plan is not None:
        with begin_record(federation.out, federation.identity, resumed=federation.begun) as data:
            plan, budget = federation.reserve(plan, data["commitment"], training.train)
        kept = {"data": data, "budget": budget}

    start = training.trainable.read()

    def engine(part: Federation, plan: PrivacyPlan | None) -> Engine:
        return _engine(part, (part.phase and training.before) or training, start, plan)

    done = lead_phases(federation, training, clients, plan, engine)
    if isinstance(group, TorchGroup):
        group.tell({})
    return {**done, **kept}


def _phase_trainer(federation: Federation, training: Training, phase: str) -> LocalTrainer:
    """The trainer of a phase, in a process that does not lead; its pages are encoded."""
    if phase and (first := training.before) and federation.pretraining:
        return _local_trainer(federation.first(federation.pretraining), first)
    return _local_trainer(federation, training)


def lead_phases(
    federation: Federation,
    training: Training,
    clients: Sequence[Client],
    plan: PrivacyPlan | None,
    engine: Callable[[Federation, PrivacyPlan | None], Engine],
) -> dict[str, Any]:
    """The server's side of all phases, for any engine.

    Args:
        engine: Maps a phase and its privacy guarantee to what runs its rounds.

    Returns:
        Privacy, rounds, history, tally and communication; of self-pretraining its rounds, history and tally.
    """
    before, kept = None, dict[str, Any]()
    if federation.pretraining and (first := training.before):
        training.progress.say(f"self-pretraining: {federation.pretraining.pretrain}")
        before = _pretrain(federation.first(federation.pretraining), first, clients, plan, engine)
        kept["pretraining"] = {"rounds": before.round, "history": before.history, "updates": dict(before.tally)}
    state = run_rounds(federation, training, clients, plan, engine(federation, plan))
    forget_secrets(federation.out)
    training.trainable.write(state.weights)
    training.model.network.eval()
    return {**finish(federation, training.trainable, state, plan, len(clients), before), **kept}


def _pretrain(
    phase: Federation,
    training: Training,
    clients: Sequence[Client],
    plan: PrivacyPlan | None,
    engine: Callable[[Federation, PrivacyPlan | None], Engine],
) -> ServerState:
    """Run the rounds of self-pretraining, unless they are done; the model gets their weights."""
    state = ServerState.restore(phase.out / STATE_FILE, phase.digest, training.trainable.read())
    if state.round < phase.settings.rounds:
        if (phase.out.parent / KEY_FILE).is_file():
            raise AuditError(
                f"{phase.out} is not whole, and the run cannot go on without it", f"Delete {phase.out.parent}"
            )
        if plan is not None and phase.privacy is not None:
            plan = replace(plan, settings=phase.privacy)
        state = run_rounds(phase, training, clients, plan, engine(phase, plan))
    forget_secrets(phase.out)
    require_finite(state.weights)
    training.trainable.write(state.weights)
    return state


def run_rounds(
    federation: Federation, training: Training, clients: Sequence[Client], plan: PrivacyPlan | None, engine: Engine
) -> ServerState:
    """The rounds of a phase; one that was cut continues."""

    def look(state: ServerState) -> dict[str, float]:
        return score(federation.settings, training, state.weights) if training.valid else {}

    numbers = [client.number for client in clients]
    path, before = federation.out / STATE_FILE, federation.rounds_before
    stream = federation.stream()
    kept = federation.messages(training.trainable, len(clients), plan, training.train, stream)
    server = Server(federation.settings, numbers, plan, stream, path, federation.digest, before, kept)
    return server.train(training.trainable.read(), engine, look, training.progress)


def score(settings: FederatedSettings, training: Training, weights: Tensor) -> dict[str, float]:
    """Validation scores of trained tensors, float32 (size,), by name; the model keeps them."""
    training.trainable.write(weights)
    training.model.network.eval()
    return mean_over_sources(training.model.validate, training.valid, settings.validation_queries)


def finish(
    federation: Federation,
    trainable: Trainable,
    state: ServerState,
    plan: PrivacyPlan | None,
    clients: int,
    before: ServerState | None = None,
) -> dict[str, Any]:
    """Write the log of messages of all phases, and return the record of the run.

    Args:
        before: Final state of the phase before, or None.
    """
    require_finite(state.weights)
    record: dict[str, Any] = {
        "privacy": plan.entry(federation.rounds_before + state.round) if plan else None,
        "rounds": state.round,
        "clients": clients,
        "history": state.history,
        "updates": dict(state.tally),
        **({"stages": state.stages} if federation.settings.validate_stages else {}),
    }
    if federation.mode != "central-dp":
        size = payload_bytes(CODECS.named(federation.settings.codec).encode(state.weights))
        back = 8 * trainable.size if federation.secure else size
        taken = [*(before.taken if before else ()), *state.taken]
        communication.write_log(federation.out, taken, size, back)
        count = 2 * sum(map(len, taken))
        record["communication"] = communication.summary(count, size, trainable.bytes_with_aliases, back)
    return record


def _engine(federation: Federation, training: Training, start: Tensor, plan: PrivacyPlan | None) -> LocalEngine:
    """All clients in this process; a phase on questions may validate every stage of a round."""
    stream = federation.stream()
    alone = _local_trainer(federation, training)
    clients = federation.clients(training.train)
    # One client a round without privacy is one training, and torch's threads share its matrices.
    several = plan or federation.settings.clients_drawn(len(clients)) > 1
    trainer: Trainer = trainer_for(alone, federation.device) if several else alone
    if isinstance(training.group, TorchGroup):
        trainer = DividedTrainer(alone, training.group, federation.phase)
    workers = {client.number: federation.worker(client, trainer, plan, stream) for client in clients}
    look = partial(score, federation.settings, training) if federation.settings.validate_stages else None
    return LocalEngine(workers, CODECS.named(federation.settings.codec), start, look)


def _local_trainer(federation: Federation, training: Training) -> LocalTrainer:
    cache = federation.pages or federation.out / PAGES_FILE
    examples = training.model.examples(training.train, training.progress, cache)
    memory = None if federation.privacy else OptimizerMemory(federation.out, federation.digest)
    kind = trainer_kind(federation.privacy)
    return kind(training.model, training.trainable, examples, federation.settings, memory)

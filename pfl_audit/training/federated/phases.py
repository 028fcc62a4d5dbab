"""The phases of a federated or private run: self-pretraining, where it is asked for, and then questions.

Both phases spend from one budget: the noise multiplier is that of all rounds, and one run is reserved in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError
from pfl_audit.models.page_store import PAGES_FILE
from pfl_audit.models.pretraining import SelfPretraining, one_a_page
from pfl_audit.models.training_protocol import QuestionModel, TrainableModel
from pfl_audit.progress import Progress
from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.codecs import CODECS
from pfl_audit.training.federated.divided import DividedTrainer, follow
from pfl_audit.training.federated.engine import LocalEngine
from pfl_audit.training.federated.local import LocalTrainer, Trainer
from pfl_audit.training.federated.messages import Engine
from pfl_audit.training.federated.optimizer_memory import OptimizerMemory
from pfl_audit.training.federated.plan import PrivacyPlan
from pfl_audit.training.federated.run import (
    KEY_FILE,
    Federation,
    forget_secrets,
    lead,
    require_finite,
    run_rounds,
    score,
)
from pfl_audit.training.federated.server import STATE_FILE, ServerState
from pfl_audit.training.federated.worker_pool import trainer_for
from pfl_audit.training.process_group import ONE, ProcessGroup
from pfl_audit.training.records import begin_record
from pfl_audit.training.torch_group import TorchGroup
from pfl_audit.training.trainable import Trainable


def train_federated(
    federation: Federation,
    model: QuestionModel,
    trainable: Trainable,
    train: Sequence[Query],
    valid: Sequence[Query],
    progress: Progress,
    pages: SelfPretraining | None = None,
    group: ProcessGroup = ONE,
) -> dict[str, Any]:
    """Train a model in place, with all clients in this process; a run that was cut continues.

    Args:
        pages: The model on its pages alone, for a federation with self-pretraining; its tokens are in ``trainable``.
        group: Processes that divide the local trainings among them.

    Returns:
        What describes it: privacy, rounds, history, tally, communication; of a private run salt, commitment and budget;
        of self-pretraining its rounds, history and tally. Nothing where another process leads.

    Raises:
        UsageError: The folder holds another run, a setting cannot be, or the budget is used up.
        AuditError: The parties are not as they must be, the ledger is damaged, or the first round moved the wrong
            tensors.
    """
    if isinstance(group, TorchGroup) and not group.leads:
        follow(group, partial(_phase_trainer, federation, model, pages, trainable, train, progress))
        return {}
    clients = federation.clients(train)
    plan = federation.agree(clients, progress)
    kept: dict[str, Any] = {}
    if plan is not None:
        with begin_record(federation.out, federation.identity, resumed=federation.begun) as data:
            plan, budget = federation.reserve(plan, data["commitment"], train)
        kept = {"data": data, "budget": budget}

    start = trainable.read()

    def engine(part: Federation, plan: PrivacyPlan | None) -> Engine:
        if part.phase and pages:
            return _engine(part, pages, trainable, start, plan, one_a_page(train), progress, group)
        look = partial(score, model, trainable, valid, part.settings) if part.settings.validate_stages else None
        return _engine(part, model, trainable, start, plan, train, progress, group, look)

    done = lead_phases(federation, model, pages, trainable, clients, plan, engine, valid, progress, train)
    if isinstance(group, TorchGroup):
        group.tell({})
    return {**done, **kept}


def _phase_trainer(
    federation: Federation,
    model: QuestionModel,
    pages: SelfPretraining | None,
    trainable: Trainable,
    train: Sequence[Query],
    progress: Progress,
    phase: str,
) -> LocalTrainer:
    """The trainer of a phase, in a process that does not lead; its pages are encoded."""
    if phase and pages and federation.pretraining:
        return _local_trainer(federation.first(federation.pretraining), pages, trainable, one_a_page(train), progress)
    return _local_trainer(federation, model, trainable, train, progress)


def lead_phases(
    federation: Federation,
    model: QuestionModel,
    pages: SelfPretraining | None,
    trainable: Trainable,
    clients: Sequence[Client],
    plan: PrivacyPlan | None,
    engine: Callable[[Federation, PrivacyPlan | None], Engine],
    valid: Sequence[Query],
    progress: Progress,
    train: Sequence[Query] = (),
) -> dict[str, Any]:
    """The server's side of all phases, for any engine.

    Args:
        engine: Maps a phase and its privacy guarantee to what runs its rounds.
        train: Questions by row, where clients are simulated here.

    Returns:
        As run.lead; of self-pretraining its rounds, history and tally.
    """
    before, kept = None, dict[str, Any]()
    if federation.pretraining and pages:
        progress.say(f"self-pretraining: {federation.pretraining.pretrain}")
        phase = federation.first(federation.pretraining)
        before = _pretrain(phase, pages, trainable, clients, plan, engine, valid, progress, train)
        kept["pretraining"] = {"rounds": before.round, "history": before.history, "updates": dict(before.tally)}
    last = engine(federation, plan)
    return {**lead(federation, model, trainable, clients, plan, last, valid, progress, before, train), **kept}


def _pretrain(
    phase: Federation,
    model: SelfPretraining,
    trainable: Trainable,
    clients: Sequence[Client],
    plan: PrivacyPlan | None,
    engine: Callable[[Federation, PrivacyPlan | None], Engine],
    valid: Sequence[Query],
    progress: Progress,
    train: Sequence[Query],
) -> ServerState:
    """Run the rounds of self-pretraining, unless they are done; the model gets their weights."""
    state = ServerState.restore(phase.out / STATE_FILE, phase.digest, trainable.read())
    if state.round < phase.settings.rounds:
        if (phase.out.parent / KEY_FILE).is_file():
            raise AuditError(
                f"{phase.out} is not whole, and the run cannot go on without it", f"Delete {phase.out.parent}"
            )
        if plan is not None and phase.privacy is not None:
            plan = replace(plan, settings=phase.privacy)
        own = one_a_page(train)
        state = run_rounds(phase, model, trainable, clients, plan, engine(phase, plan), valid, progress, own)
    forget_secrets(phase.out)
    require_finite(state.weights)
    trainable.write(state.weights)
    return state


def _engine(
    federation: Federation,
    model: TrainableModel[Query],
    trainable: Trainable,
    start: Tensor,
    plan: PrivacyPlan | None,
    train: Sequence[Query],
    progress: Progress,
    group: ProcessGroup,
    look: Callable[[Tensor], dict[str, float]] | None = None,
) -> LocalEngine:
    """All clients in this process."""
    stream = federation.stream()
    alone = _local_trainer(federation, model, trainable, train, progress)
    clients = federation.clients(train)
    # One client a round without privacy is one training, and torch's threads share its matrices.
    several = plan or federation.settings.clients_drawn(len(clients)) > 1
    trainer: Trainer = trainer_for(alone, federation.device) if several else alone
    if isinstance(group, TorchGroup):
        trainer = DividedTrainer(alone, group, federation.phase)
    workers = {client.number: federation.worker(client, trainer, plan, stream) for client in clients}
    return LocalEngine(workers, CODECS.named(federation.settings.codec), start, look)


def _local_trainer(
    federation: Federation,
    model: TrainableModel[Query],
    trainable: Trainable,
    train: Sequence[Query],
    progress: Progress,
) -> LocalTrainer:
    examples = model.examples(train, progress, federation.pages or federation.out / PAGES_FILE)
    memory = None if federation.privacy else OptimizerMemory(federation.out, federation.digest)
    return LocalTrainer(model, trainable, examples, federation.settings, memory)

"""Central training: all documents in one place, plain AdamW (privacy-aware-docvqa, section 7, VT5-C)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError
from pfl_audit.files import sha256_json
from pfl_audit.models.page_store import PAGES_FILE
from pfl_audit.progress import Progress
from pfl_audit.training.batching import BatchOrder
from pfl_audit.training.loop import STATE_FILE, Schedule, batch_losses, run_loop
from pfl_audit.training.optimizers import make_optimizer
from pfl_audit.training.pretraining import FOLDER, Pretraining, first_phase
from pfl_audit.training.refusals import draw_refusals
from pfl_audit.training.scores import mean_over_sources
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.start import Training
from pfl_audit.training.state import RunState


def train_central_phases(
    training: Training, pretraining: Pretraining | None, settings: TrainSettings, out: Path, identity: dict[str, Any]
) -> dict[str, Any]:
    """Train a model in place, on its pages alone first where ``pretraining`` is given.

    Returns:
        Its record: steps and history of both phases, refusals.

    Raises:
        AuditError: As train_central.
    """
    done: dict[str, Any] = {}
    if (first := training.before) and pretraining:
        training.progress.say(f"self-pretraining: {pretraining.pretrain}")
        before = train_central(first, pretraining.central(settings), out / FOLDER, first_phase(identity))
        done["pretraining"] = {"steps": before.step, "history": before.history}
    state = train_central(training, settings, out, identity)
    done |= {"privacy": None, "steps": state.step, "history": state.history}
    if settings.refuse:
        done["refusals"] = {"share": settings.refuse, "trained": state.refusals}
    return done


def train_central(training: Training, settings: TrainSettings, out: Path, identity: dict[str, Any]) -> RunState:
    """Train a model in place, continuing where a killed run of the same settings stopped.

    Args:
        training: The model to begin with, and what it is trained on.
        out: Folder of the run; its state is kept there.
        identity: What else decides the weights (data and start), so that no other run is continued.

    Returns:
        The state at the end, with its history.

    Raises:
        UsageError: The folder holds another run, or the model cannot write a refusal.
        AuditError: Nothing to train on, or the loss is no longer finite.
    """
    settings.check()
    model, trainable, train, progress = training.model, training.trainable, training.train, training.progress
    if not train:
        raise AuditError("there is no document to train on", "Give a corpus with BLUE training documents")
    optimizer = make_optimizer(settings.optimizer, trainable.parameters, settings.learning_rate, settings.weight_decay)
    order = BatchOrder([model.length(query) for query in train], settings.batch_size, settings.seed)
    refusals = draw_refusals(train, model.can_write, order, settings, progress)
    with training.group.leader_first():
        examples = model.examples([*train, *refusals.queries], progress, out / PAGES_FILE)

    def rows(step: int) -> list[int]:
        drawn = refusals.steps.get(step, {})
        return [drawn.get(row, row) for row in order(step)]

    scores = partial(mean_over_sources, model.validate, most=settings.validation_queries)
    schedule = Schedule(
        steps=settings.steps,
        rate=settings.rate,
        losses=batch_losses(examples, rows, settings.seed, training.group),
        clip_norm=settings.clip_norm,
        validate_every=settings.validate_every,
        validated=validation(scores, training.valid if training.group.leads else (), progress),
        save_every=settings.save_every,
    )
    state = run_loop(
        model.network,
        model.page_encoder,
        trainable,
        optimizer,
        schedule,
        seed=settings.seed,
        path=out / STATE_FILE,
        run=sha256_json([settings.to_dict(), identity]),
        progress=progress,
        group=training.group,
    )
    if training.group.leads:
        (out / PAGES_FILE).unlink(missing_ok=True)
    state.refusals = sum(map(len, refusals.steps.values()))
    return state


def validation(
    scores: Callable[[Sequence[Query]], dict[str, float]], queries: Sequence[Query], progress: Progress
) -> Callable[[RunState, float], None]:
    """A ``Schedule.validated`` that scores held-out queries, and reports their means; nothing without any."""

    def validated(state: RunState, loss: float) -> None:
        if queries:
            found = scores(queries)
            state.history.append({"step": state.step, "loss": loss, **found})
            said = ", ".join(f"{name} {value:.3f}" for name, value in found.items() if "/" not in name)
            progress.say(f"step {state.step}: {said.replace('anls', 'ANLS')}")

    return validated

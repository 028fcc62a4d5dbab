"""Central training on forms: after every epoch a validation, and the best models are kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.files import sha256_json
from pfl_audit.models.form_protocol import Window
from pfl_audit.progress import Progress
from pfl_audit.training.batching import BatchOrder
from pfl_audit.training.forms.model import TrainableEncoder
from pfl_audit.training.forms.settings import FormTrainSettings
from pfl_audit.training.loop import STATE_FILE, Schedule, run_loop
from pfl_audit.training.optimizers import make_optimizer
from pfl_audit.training.state import RunState
from pfl_audit.training.trainable import choose_trainable

_POOL = 4
"""Batches sorted by length together: padding is saved, and the windows of a batch still change."""

History = list[dict[str, Any]]
Keep = Callable[[str, History], None]
"""Writes the model as it is, under a name, with the history up to now."""
Criterion = Literal["precision", "loss"]
CRITERIA: Final[tuple[Criterion, ...]] = ("precision", "loss")


def train_encoder(
    model: TrainableEncoder,
    train: Sequence[Window],
    validation: Sequence[Window],
    settings: FormTrainSettings,
    out: Path,
    *,
    identity: dict[str, Any],
    keep: Keep,
    progress: Progress,
) -> History:
    """Train an encoder in place, continuing where a killed run of the same settings stopped.

    Args:
        model: The encoder to begin with.
        train: Windows to train on.
        validation: Windows to validate on after every epoch.
        out: Folder of the run; its state is kept there.
        identity: What else decides the weights (data and start), so that no other run is continued.
        keep: Called if an epoch is the best so far, and every ``keep_every`` epochs.

    Returns:
        One entry an epoch: ``epoch`` from 1, ``loss`` of training, ``validation_loss`` and ``accuracy`` (see MEASURE).

    Raises:
        UsageError: The folder holds another run.
        AuditError: A loss is no longer finite, or a tensor that should be trained did not move.
    """
    trainable = choose_trainable(model)
    optimizer = make_optimizer(settings.optimizer, trainable.parameters, settings.learning_rate, settings.weight_decay)
    order = BatchOrder([model.length(window) for window in train], settings.batch_size, settings.seed, _POOL)
    examples = model.examples(train, progress)
    steps = settings.epochs * order.epoch_steps

    def losses(step: int) -> Iterable[Tensor]:
        epoch, place = divmod(step, order.epoch_steps)
        if place == 0:  # a state is saved at the end of an epoch, so that a resumed run begins here
            examples.reseed(int(sha256_json(["mask", settings.seed, epoch])[:15], 16))
        yield examples.loss(order(step))

    def validated(state: RunState, loss: float) -> None:
        epoch, scores = len(state.history) + 1, model.validate(validation)
        if not math.isfinite(validation_loss := scores["validation_loss"]):
            raise AuditError(f"the validation loss is {validation_loss} in epoch {epoch}", "Lower --learning-rate")
        state.history.append({"epoch": epoch, "loss": loss, **scores})
        for criterion in CRITERIA:
            if best_epoch(state.history, criterion) == epoch - 1:
                keep(f"best-{criterion}", state.history)
        if settings.keep_every and epoch % settings.keep_every == 0:
            keep(f"epoch-{epoch:03d}", state.history)

    def note(state: RunState, loss: float) -> str:
        seen = f", validation {state.history[-1]['validation_loss']:.3f}" if state.history else ""
        return f"epoch {len(state.history) + 1} of {settings.epochs}, loss {loss:.3f}{seen}"

    schedule = Schedule(
        steps=steps,
        rate=lambda step: settings.rate(step, steps),
        losses=losses,
        clip_norm=settings.clip_norm,
        validate_every=order.epoch_steps,
        validated=validated,
        save_every=order.epoch_steps,
        check_after=order.epoch_steps,
        note=note,
    )
    state = run_loop(
        model.network,
        None,
        trainable,
        optimizer,
        schedule,
        seed=settings.seed,
        path=out / STATE_FILE,
        run=sha256_json([settings.to_dict(), identity]),
        progress=progress,
    )
    return state.history


def best_epoch(history: Sequence[Mapping[str, float]], criterion: Criterion) -> int:
    """Index of the epoch with the best validation accuracy, or with the lowest validation loss.

    Among epochs of the same accuracy it is the one with the lower loss, and else the earlier: a model that finds
    nothing yet scores 0 for many epochs, and its first is chance.

    Args:
        history: One entry an epoch, with ``accuracy`` and ``validation_loss``, both finite; not empty.
        criterion: ``precision`` or ``loss``.
    """

    def rank(index: int) -> tuple[float, ...]:
        loss = history[index]["validation_loss"]
        return (loss,) if criterion == "loss" else (-history[index]["accuracy"], loss)

    return min(range(len(history)), key=rank)

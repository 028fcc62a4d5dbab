"""The epochs of a run: train, look at the validation forms, keep what is best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from pfl_audit.errors import AuditError
from pfl_audit.files import sha256_json
from pfl_audit.models.encoders.batch import FormBatch
from pfl_audit.models.encoders.examples import ExampleMaker
from pfl_audit.models.encoders.network import FormEncoder
from pfl_audit.models.form_protocol import Window
from pfl_audit.models.memory import keep_freed_memory
from pfl_audit.progress import Progress
from pfl_audit.training.forms.deal import deal
from pfl_audit.training.forms.scores import Counts, score
from pfl_audit.training.forms.selection import CRITERIA, best_epoch
from pfl_audit.training.forms.settings import FormTrainSettings
from pfl_audit.training.optimizers import make_optimizer
from pfl_audit.training.state import restore_state, save_state
from pfl_audit.training.trainable import Trainable

STATE_FILE = "training-state.safetensors"
_VALIDATION_MASK = 0
"""Seed of the mask of the validation windows: the same every epoch and for every run."""

History = list[dict[str, Any]]
Keep = Callable[[str, History], None]
"""Writes the model as it is, under a name, with the history up to now."""


def train_encoder(
    network: FormEncoder,
    maker: ExampleMaker,
    train: Sequence[Window],
    validation: Sequence[Window],
    settings: FormTrainSettings,
    out: Path,
    *,
    identity: dict[str, Any],
    keep: Keep,
    progress: Progress,
    device: str = "cpu",
) -> History:
    """Train ``network`` in place, going on where a killed run of the same settings stopped.

    Args:
        network: To begin with.
        maker: Of the network.
        train: Windows to train on.
        validation: Windows to look at after every epoch.
        settings: What to do.
        out: Folder of the run; its state is kept there.
        identity: What else decides the weights (data and start), so that no other run is continued.
        keep: Called where an epoch is the best so far, and every ``keep_every`` epochs.
        progress: Told of every step.
        device: torch's name of the device; the network stays there.

    Returns:
        One entry an epoch: ``epoch`` from 1, ``loss`` of training, ``validation_loss`` and ``accuracy`` (see MEASURE).

    Raises:
        UsageError: The folder holds another run.
        AuditError: A loss is no longer finite, or a tensor that should be trained did not move.
    """
    # Sharp attention leaves numbers too small for the fast path of the processor; they count as 0.
    torch.set_flush_denormal(True)
    keep_freed_memory()
    network.to(device)
    trainable = Trainable(network)
    optimizer = make_optimizer(settings.optimizer, trainable.parameters, settings.learning_rate, settings.weight_decay)
    torch.manual_seed(settings.seed)
    run = sha256_json([settings.to_dict(), identity])
    state = restore_state(out / STATE_FILE, run, network, optimizer)
    before = None if state.step else trainable.read()
    lengths = [len(window.ids) for window in train]
    steps = settings.epochs * math.ceil(len(train) / settings.batch_size)
    with progress.task("training", steps, state.step) as task:
        for epoch in range(len(state.history), settings.epochs):
            chance = torch.Generator().manual_seed(_mask_seed(settings.seed, epoch))
            losses: list[float] = []
            set_training(network)
            for batch in deal(lengths, settings.batch_size, settings.seed, epoch):
                examples = maker.batch([train[index] for index in batch], chance).to(device)
                rate = settings.rate(state.step, steps)
                losses.append(_step(network, optimizer, examples, rate, settings.clip_norm, epoch))
                state.step += 1
                task.advance(1, _told(epoch, settings.epochs, losses[-1], state.history))
            if before is not None:
                trainable.require_moved(trainable.moved(trainable.read() - before))
                before = None
            looked = look(network, maker, validation, settings.batch_size, device)
            _require_finite(looked["validation_loss"], "validation", epoch)
            state.history.append({"epoch": epoch + 1, "loss": sum(losses) / len(losses), **looked})
            for criterion in CRITERIA:
                if best_epoch(state.history, criterion) == epoch:
                    keep(f"best-{criterion}", state.history)
            if settings.keep_every and (epoch + 1) % settings.keep_every == 0:
                keep(f"epoch-{epoch + 1:03d}", state.history)
            save_state(out / STATE_FILE, run, state, network, optimizer)
    network.eval()
    return state.history


def look(
    network: FormEncoder, maker: ExampleMaker, windows: Sequence[Window], batch_size: int, device: str = "cpu"
) -> dict[str, float]:
    """Mean loss over windows, and accuracy; chance is left as it was.

    Args:
        network: Put into evaluation mode.
        maker: Of the network.
        windows: At least one.
        batch_size: Windows a pass.
        device: Where the network is.
    """
    network.eval()
    chance = torch.Generator().manual_seed(_VALIDATION_MASK)
    ordered = sorted(windows, key=lambda window: len(window.ids))
    losses: list[float] = []
    counts = Counts()
    for at in range(0, len(ordered), batch_size):
        some, found = score(network, maker.batch(ordered[at : at + batch_size], chance).to(device))
        losses += some
        counts += found
    return {"validation_loss": sum(losses) / len(losses), "accuracy": counts.f1}


def set_training(network: FormEncoder) -> None:
    """Training mode, but for the statistics of the vision backbone's batch norms.

    They stay as they are, as is usual below region-of-interest alignment (He et al., Mask R-CNN, section 3.1), so
    that a window's loss is its own and the one that an attack sees.
    """
    network.train()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()


def _step(
    network: FormEncoder, optimizer: torch.optim.Optimizer, batch: FormBatch, rate: float, clip: float, epoch: int
) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    loss = network.loss(batch).mean()
    _require_finite(value := float(loss.detach()), "training", epoch)
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
    optimizer.step()
    return value


def _require_finite(loss: float, what: str, epoch: int) -> None:
    if not math.isfinite(loss):
        raise AuditError(f"the {what} loss is {loss} in epoch {epoch + 1}", "Lower --learning-rate")


def _mask_seed(seed: int, epoch: int) -> int:
    return int(sha256_json(["mask", seed, epoch])[:15], 16)


def _told(epoch: int, epochs: int, loss: float, history: History) -> str:
    seen = f", validation {history[-1]['validation_loss']:.3f}" if history else ""
    return f"epoch {epoch + 1} of {epochs}, loss {loss:.3f}{seen}"

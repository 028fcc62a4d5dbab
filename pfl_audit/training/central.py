"""Central training: all documents in one place, plain AdamW (privacy-aware-docvqa, section 7, VT5-C)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import sha256_json
from pfl_audit.models.memory import keep_freed_memory
from pfl_audit.models.vt5.checkpoint import LoadedVt5
from pfl_audit.models.vt5.inputs import InputBuilder
from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.progress import Progress
from pfl_audit.training.examples import Batch, Examples
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.state import RunState, restore_state, save_state
from pfl_audit.training.validation import validate

STATE_FILE = "training-state.safetensors"


def train_central(
    start: LoadedVt5,
    train: Sequence[Query],
    valid: Sequence[Query],
    settings: TrainSettings,
    out: Path,
    *,
    identity: dict[str, Any],
    progress: Progress,
    device: str = "cpu",
) -> RunState:
    """Train ``start`` in place, going on where a killed run of the same settings stopped.

    Args:
        start: Model to begin with.
        train: Queries to train on.
        valid: Queries to look at now and then; may be empty.
        settings: What to do.
        out: Folder of the run; its state is kept there.
        identity: What else decides the weights (data and start), so that no other run is continued.
        progress: Told of every step.
        device: torch's name of the device; the model stays there.

    Returns:
        The state at the end, with its history.

    Raises:
        UsageError: The folder holds another run.
        AuditError: Nothing to train on, or the loss is no longer finite.
    """
    settings.check()
    # Sharp attention leaves numbers too small for the fast path of the processor; they count as 0.
    torch.set_flush_denormal(True)
    keep_freed_memory()
    if not train:
        raise AuditError("there is no document to train on", "Give a corpus with BLUE training documents")
    network = start.network.to(device)
    inputs = InputBuilder(network.config, start.tokenizer)
    torch.manual_seed(settings.seed)
    _choose_trainable(network, freeze_visual=settings.freeze_visual)
    trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = make_optimizer(trainable, settings)
    run = sha256_json([settings.to_dict(), identity])
    state = restore_state(out / STATE_FILE, run, network, optimizer)
    network.eval()
    examples = Examples(train, inputs, network if settings.freeze_visual else None, progress, device)
    batches = examples.order(settings.batch_size, settings.seed, state.step)
    losses: list[float] = []
    with progress.task("training", settings.steps, state.step) as task:
        while state.step < settings.steps:
            loss = _step(network, optimizer, examples.batch(next(batches)), settings, state.step)
            losses.append(loss)
            state.step += 1
            task.advance(1, f"loss {loss:.3f}")
            if valid and (state.step % settings.validate_every == 0 or state.step == settings.steps):
                scores = validate(start, valid[: settings.validation_queries], device)
                state.history.append({"step": state.step, "loss": sum(losses) / len(losses), **scores})
                losses = []
                progress.say(f"step {state.step}: ANLS {scores['anls']:.3f}, accuracy {scores['accuracy']:.3f}")
            if state.step % settings.save_every == 0 or state.step == settings.steps:
                save_state(out / STATE_FILE, run, state, network, optimizer)
    network.eval()
    return state


def batch_loss(network: Vt5, batch: Batch, *, pages_are_features: bool) -> torch.Tensor:
    """Mean cross-entropy over the batch's answer tokens."""
    features = batch.pages if pages_are_features else network.visual_embedding.encode(batch.pages)
    embeddings, mask = network.embed(batch.text, features)
    out = network.language_backbone(inputs_embeds=embeddings, attention_mask=mask, labels=batch.labels)
    loss: torch.Tensor = out.loss
    return loss


def make_optimizer(parameters: Sequence[nn.Parameter], settings: TrainSettings) -> torch.optim.Optimizer:
    """The optimiser of a run.

    Raises:
        UsageError: No such optimiser.
    """
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(parameters, settings.learning_rate, weight_decay=settings.weight_decay, foreach=True)
    if settings.optimizer == "adafactor":
        return torch.optim.Adafactor(parameters, settings.learning_rate, weight_decay=0.0, foreach=True)
    raise UsageError(f"there is no optimiser '{settings.optimizer}'", "Choose adamw or adafactor")


def _step(network: Vt5, optimizer: torch.optim.Optimizer, batch: Batch, settings: TrainSettings, step: int) -> float:
    network.train()
    if settings.freeze_visual:
        network.visual_embedding.image_model.eval()
    for group in optimizer.param_groups:
        group["lr"] = settings.rate(step)
    optimizer.zero_grad()
    loss = batch_loss(network, batch, pages_are_features=settings.freeze_visual)
    if not bool(torch.isfinite(loss)):
        raise AuditError(f"the training loss is {loss.item()} at step {step + 1}", "Lower --learning-rate")
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_((p for p in network.parameters() if p.requires_grad), settings.clip_norm)
    optimizer.step()
    return float(loss.detach())


def _choose_trainable(network: Vt5, *, freeze_visual: bool) -> None:
    network.requires_grad_(True)
    if freeze_visual:
        network.visual_embedding.image_model.requires_grad_(False)

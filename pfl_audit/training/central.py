"""Central training: all documents in one place, plain AdamW (privacy-aware-docvqa, section 7, VT5-C)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError
from pfl_audit.files import sha256_json
from pfl_audit.models.memory import keep_freed_memory
from pfl_audit.models.vt5.checkpoint import LoadedVt5
from pfl_audit.models.vt5.inputs import InputBuilder
from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.progress import Progress
from pfl_audit.training.examples import Batch, Examples
from pfl_audit.training.optimizers import make_optimizer
from pfl_audit.training.refusals import draw_refusals
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.state import RunState, restore_state, save_state
from pfl_audit.training.trainable import Trainable, choose_trainable
from pfl_audit.training.validation import validate

STATE_FILE = "training-state.safetensors"
_CHECKED = 2
"""Steps after which everything must have moved: half of an adapter only moves once the other half has."""


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
    trainable: Trainable | None = None,
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
        trainable: What moves; None for what ``settings.freeze_visual`` leaves.

    Returns:
        The state at the end, with its history.

    Raises:
        UsageError: The folder holds another run, or the model cannot write a refusal.
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
    trainable = trainable or choose_trainable(network, freeze_visual=settings.freeze_visual)
    optimizer = make_optimizer(settings.optimizer, trainable.parameters, settings.learning_rate, settings.weight_decay)
    run = sha256_json([settings.to_dict(), identity])
    state = restore_state(out / STATE_FILE, run, network, optimizer)
    network.eval()
    refusals = draw_refusals(train, inputs, settings, progress)
    asked = [*train, *refusals.queries]
    examples = Examples(asked, inputs, network if settings.freeze_visual else None, progress, device)
    batches = examples.order(settings.batch_size, settings.seed, state.step, among=len(train))
    losses: list[float] = []
    before = (trainable.read(), trainable.frozen_digest()) if state.step == 0 else None
    with progress.task("training", settings.steps, state.step) as task:
        while state.step < settings.steps:
            drawn = refusals.steps.get(state.step, {})
            batch = examples.batch([drawn.get(query, query) for query in next(batches)])
            loss = _step(network, optimizer, batch, settings, state.step)
            state.refusals += len(drawn)
            losses.append(loss)
            state.step += 1
            if before is not None and state.step == min(_CHECKED, settings.steps):
                trainable.require_moved(trainable.moved(trainable.read() - before[0]))
                trainable.require_frozen(before[1])
                before = None
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

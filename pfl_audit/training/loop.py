"""The training loop: optimiser steps, validation, and a state on disk that a killed run continues from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from pfl_audit.errors import AuditError
from pfl_audit.models.memory import keep_freed_memory
from pfl_audit.models.training_protocol import TrainingSet
from pfl_audit.progress import Progress
from pfl_audit.training.federated.secure_rng import seed_for
from pfl_audit.training.interrupts import held_interrupts
from pfl_audit.training.process_group import ONE, ProcessGroup
from pfl_audit.training.state import RunState, restore_state, save_state
from pfl_audit.training.trainable import Trainable

STATE_FILE = "training-state.safetensors"


def prepare_process() -> None:
    """Set up the process for training: denormal numbers, which processors compute slowly, count as 0."""
    torch.set_flush_denormal(True)
    keep_freed_memory()


def set_training(network: nn.Module, page_encoder: nn.Module | None = None) -> None:
    """Put a network into training mode, except for a frozen visual encoder and the statistics of batch norms.

    Those statistics stay as they are, as is usual below region-of-interest alignment (He et al., Mask R-CNN,
    section 3.1), so that the loss of an example is its own and the one that an attack sees.
    """
    network.train()
    if page_encoder is not None:
        page_encoder.eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()


def take_step(
    optimizer: torch.optim.Optimizer,
    trainable: Trainable,
    losses: Iterable[Tensor],
    *,
    rate: float | None = None,
    clip_norm: float | None = None,
    group: ProcessGroup = ONE,
) -> float:
    """One optimiser step; it is left out if the loss is not finite.

    Args:
        optimizer: Optimiser of the trainable parameters.
        trainable: Parameters whose gradient is clipped.
        losses: Losses whose sum is minimised, each float (); one at a time is held in memory.
        rate: Learning rate of the step, or None for the optimiser's own.
        clip_norm: Largest L2 norm of the gradient, or None.
        group: Processes whose losses are summed.

    Returns:
        The loss, which may be NaN or infinite.
    """
    if rate is not None:
        for parameters in optimizer.param_groups:
            parameters["lr"] = rate
    optimizer.zero_grad()
    total = 0.0
    for loss in losses:
        total += float(loss.detach())
        if not math.isfinite(total):
            break
        torch.autograd.backward(loss)
    total = group.total(total)
    if not math.isfinite(total):
        return total
    group.sum_gradients(trainable.parameters)
    if clip_norm is not None:
        torch.nn.utils.clip_grad_norm_(trainable.parameters, clip_norm)
    optimizer.step()
    return total


@dataclass(frozen=True)
class Schedule:
    """What happens at which step of a training.

    Attributes:
        steps: Optimiser steps.
        rate: Maps a step, counted from 0, to its learning rate.
        losses: Maps a step to the losses whose sum is minimised.
        clip_norm: Largest L2 norm of a step's gradient.
        validate_every: Steps between validations; the last step is always one.
        validated: Called at a validation with the state and the mean training loss since the last one; it appends
            to the state's history.
        save_every: Steps between saved states; the last step is always one.
        check_after: Steps after which every trainable tensor must have moved; None if some get no gradient.
        note: Maps the state and the loss of its last step to what the progress bar shows.
    """

    steps: int
    rate: Callable[[int], float]
    losses: Callable[[int], Iterable[Tensor]]
    clip_norm: float
    validate_every: int
    validated: Callable[[RunState, float], None]
    save_every: int
    check_after: int | None = 2  # half of an adapter only moves once the other half has
    note: Callable[[RunState, float], str] = lambda _, loss: f"loss {loss:.3f}"


def run_loop(
    network: nn.Module,
    page_encoder: nn.Module | None,
    trainable: Trainable,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    *,
    seed: int,
    path: Path,
    run: str,
    progress: Progress,
    name: str = "training",
    group: ProcessGroup = ONE,
) -> RunState:
    """Train a network in place, continuing where a killed run stopped; an interrupt saves the last whole step.

    Args:
        page_encoder: Its frozen visual encoder, or None.
        trainable: Parameters that are trained.
        optimizer: Optimiser of these parameters.
        schedule: What happens at which step.
        seed: Seed of dropout.
        run: Digest of what decides the run, so that no other run is continued.
        name: Name of the work for the progress bar.
        group: Processes that train together; the one that leads writes the state.

    Returns:
        The state at the end, with its history.

    Raises:
        UsageError: The file belongs to another run, or to one of another number of processes.
        AuditError: The loss is no longer finite, or the first steps moved the wrong tensors.
        KeyboardInterrupt: At an interrupt, after the step and saving it; at a second one at once.
    """
    prepare_process()
    torch.manual_seed(seed)
    state = restore_state(path, run, network, optimizer, group.size)
    group.require_same(trainable)
    checked = min(schedule.check_after or 0, schedule.steps)
    before = (trainable.read(), trainable.frozen_digest()) if checked and state.step == 0 else None
    saved = state.step
    with held_interrupts() as interrupted, progress.task(name, schedule.steps, state.step) as task:
        while True:
            last = state.step == schedule.steps
            stop = group.total(float(interrupted())) > 0  # all processes of a group stop after one step
            if state.losses and not stop and (last or state.step % schedule.validate_every == 0):
                network.eval()
                schedule.validated(state, sum(state.losses) / len(state.losses))
                state.losses = []
            if state.step > saved and (last or stop or state.step % schedule.save_every == 0):
                group.require_same(trainable)
                if group.leads:
                    save_state(path, run, state, network, optimizer)
            if stop:
                raise KeyboardInterrupt
            if last:
                break
            set_training(network, page_encoder)
            group.reseed(seed, state.step)
            rate, losses = schedule.rate(state.step), schedule.losses(state.step)
            loss = take_step(optimizer, trainable, losses, rate=rate, clip_norm=schedule.clip_norm, group=group)
            if not math.isfinite(loss):
                raise AuditError(f"the training loss is {loss} at step {state.step + 1}", "Lower --learning-rate")
            state.losses.append(loss)
            state.step += 1
            if before is not None and state.step == checked:
                trainable.require_moved(trainable.moved(trainable.read() - before[0]))
                trainable.require_frozen(before[1])
                before = None
            task.advance(1, schedule.note(state, loss))
    network.eval()
    return state


def batch_losses(
    examples: TrainingSet, order: Callable[[int], list[int]], seed: int, group: ProcessGroup = ONE
) -> Callable[[int], Iterable[Tensor]]:
    """Maps a step to the loss of its batch, or to a process's share of it; step and seed decide what is drawn."""

    def losses(step: int) -> Iterable[Tensor]:
        examples.reseed(seed_for(seed, "mask", step))
        yield from group.losses(examples, order(step))

    return losses

"""Dry run of a training: what it would do, send, promise and take."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pfl_audit.models.memory import peak_memory
from pfl_audit.privacy.units import UNITS
from pfl_audit.progress import Progress
from pfl_audit.training.federated import communication
from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.codecs import CODECS, payload_bytes
from pfl_audit.training.federated.plan import PrivacyPlan
from pfl_audit.training.federated.run import Federation
from pfl_audit.training.federated.secure_rng import SecretStream, new_key
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.loop import set_training
from pfl_audit.training.refusals import most_refusals
from pfl_audit.training.run import federation_of, prepare
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.start import Settings, Training, TrainRun, begin, choose, on_pages

_COPIES = 9
"""Vectors beside the weights: gradient, two moments, the round's weights and sum, an update, the same clipped, noise,
and what is being written to disk."""
_DRAWN = 1 << 18
"""Normal numbers that are drawn to see how long they take."""


def plan_run(
    run: TrainRun, settings: Settings, progress: Progress, privacy: PrivacySettings | None = None
) -> dict[str, Any]:
    """What ``run_training`` would do; nothing is trained and nothing written.

    Raises:
        UsageError: As run_training.
    """
    prepared = prepare(run, settings, privacy)
    with tempfile.TemporaryDirectory() as scratch:
        elsewhere = replace(run, out=Path(scratch))
        model = begin(elsewhere, prepared.corpus, settings)
        pages = on_pages(run.pretraining, model)
        _, trainable = choose(model, run.lora, settings, pages)
        training = Training(model, trainable, prepared.train, prepared.valid, progress, pages)
        if not isinstance(settings, TrainSettings):
            return _plan_federated(federation_of(elsewhere, settings, privacy, prepared.identity), training)
        trained = {"tensors": len(trainable.names), "numbers": trainable.size}
        plan: dict[str, Any] = {"mode": run.mode, "clients": [], "trained": trained, "privacy": None}
        plan["estimate"] = _estimate(training, settings, settings.steps)
        if run.pretraining and training.before:
            first = run.pretraining.central(settings)
            plan["pretraining"] = {"estimate": _estimate(training.before, first, first.steps)}
        return plan


def _plan_federated(federation: Federation, training: Training) -> dict[str, Any]:
    """The plan of a federated or private run.

    Returns:
        Clients, tensors, messages, guarantee, and an estimate of time (seconds) and memory (bytes); ``pretraining`` has
        rounds and estimate of that phase, while messages and guarantee are of both.
    """
    clients, trainable = federation.clients(training.train), training.trainable
    plan = federation.agree(clients, training.progress)
    sent = _expected_messages(federation, plan, len(clients))
    noun = UNITS[plan.mechanism.unit if plan else "provider"].noun
    plan_record: dict[str, Any] = {
        "mode": federation.mode,
        "clients": [
            {"client": client.number, f"{noun}s": len(client.providers), "queries": sum(map(len, client.providers))}
            for client in clients
        ],
        "rounds": federation.settings.rounds,
        "trained": {"tensors": len(trainable.names), "numbers": trainable.size},
        "privacy": None,
        "estimate": _phase(federation, training, plan),
    }
    if federation.pretraining and training.before:
        phase = federation.first(federation.pretraining)
        taken = _phase(phase, training.before, plan)
        plan_record["pretraining"] = {"rounds": phase.settings.rounds, "estimate": taken}
        sent += _expected_messages(phase, plan, len(clients))
    if plan is not None:
        plan_record["privacy"] = plan.entry(plan.mechanism.rounds)
        plan_record["warnings"] = plan.warnings
    if federation.mode != "central-dp":
        size = payload_bytes(CODECS.named(federation.settings.codec).encode(trainable.read()))
        plan_record["communication"] = communication.summary(round(sent), size, trainable.bytes_with_aliases)
    return plan_record


def _phase(federation: Federation, training: Training, plan: PrivacyPlan | None) -> dict[str, Any]:
    """Time (seconds) and memory (bytes) of a phase."""
    settings, clients = federation.settings, federation.clients(training.train)
    taken = _estimate(training, settings, _expected_steps(settings, plan, clients))
    if plan is not None:
        draws = settings.rounds * max(1.0, _expected_clients(settings, plan, len(clients))) * training.trainable.size
        taken["seconds"] += round(draws * _seconds_a_draw())
    return taken


def _expected_messages(federation: Federation, plan: PrivacyPlan | None, clients: int) -> float:
    """Messages of a phase, in expectation."""
    return 2 * federation.settings.rounds * _expected_clients(federation.settings, plan, clients)


def _expected_clients(settings: FederatedSettings, plan: PrivacyPlan | None, clients: int) -> float:
    """Clients a round, in expectation."""
    return float(settings.clients_drawn(clients)) if plan is None else plan.mechanism.sampling.client_rate * clients


def _expected_steps(settings: FederatedSettings, plan: PrivacyPlan | None, clients: Sequence[Client]) -> float:
    """Optimiser steps of the whole run, in expectation."""

    def steps(queries: int) -> int:
        wanted = settings.local_epochs * math.ceil(queries / settings.batch_size)
        return min(wanted, settings.local_steps or wanted)

    if plan is None:
        share = settings.clients_drawn(len(clients)) / len(clients)
        return settings.rounds * share * sum(steps(sum(map(len, client.providers))) for client in clients)
    every = sum(steps(len(rows)) for client in clients for rows in client.providers)
    return settings.rounds * plan.mechanism.share * every


def _estimate(training: Training, settings: FederatedSettings | TrainSettings, steps: float) -> dict[str, Any]:
    """Time (seconds) and memory (bytes) of so many optimiser steps, encoding of the pages included.

    Measured on two batches, forwards and backwards; no weight is changed.
    """
    model, train = training.model, training.train
    some = [train[at] for at in range(0, len(train), max(1, len(train) // (2 * settings.batch_size)))]
    began = time.perf_counter()
    examples = model.examples(some, training.progress)
    a_page = (time.perf_counter() - began) / len({query.document.id for query in some})
    set_training(model.network, model.page_encoder)
    seconds = []
    for at in (0, settings.batch_size):
        rows = list(range(len(some)))[at : at + settings.batch_size] or [0]
        began = time.perf_counter()
        torch.autograd.backward(examples.loss(rows))
        seconds.append(time.perf_counter() - began)
        model.network.zero_grad()
    model.network.eval()
    pages = len({query.document.id for query in train})
    if isinstance(settings, TrainSettings):
        pages += most_refusals(settings, len(train))
    held = pages if model.page_encoder is None else 0  # features are on disk
    return {
        "optimiser_steps": round(steps),
        "seconds_a_step": round(min(seconds), 3),
        "seconds": round(a_page * pages + steps * min(seconds)),
        "peak_memory_bytes": peak_memory() + _COPIES * training.trainable.bytes_once + held * examples.page_bytes,
    }


def _seconds_a_draw() -> float:
    """Of a normal number."""
    began = time.perf_counter()
    SecretStream(new_key(0)).normal(_DRAWN, "dry run")
    return (time.perf_counter() - began) / _DRAWN

"""The server's side of all rounds (privacy-aware-docvqa, algorithm 1, lines 1 to 9)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfl_audit.models.tensor_record import read_state, write_state
from pfl_audit.progress import Progress
from pfl_audit.training.federated.gaussian_mechanism import GaussianNoise
from pfl_audit.training.federated.kept import KeptMessages
from pfl_audit.training.federated.messages import SERVER, Engine, Norms, Report, RoundTask, mean_norms
from pfl_audit.training.federated.plan import PrivacyPlan
from pfl_audit.training.federated.secure_rng import SecretStream, seed_for
from pfl_audit.training.federated.settings import FederatedSettings
from pfl_audit.training.federated.strategies import STRATEGIES, OptimizerStep
from pfl_audit.training.interrupts import held_interrupts

STATE_FILE = "training-state.safetensors"
_SAVE_SECONDS = 20.0
_RECORDED = ("round", "done", "absent", "kept", "losses", "norms", "taken", "history", "stages")


@dataclass
class ServerState:
    """How far a run has come.

    Attributes:
        weights: The global model, float32 (size,).
        round: Rounds that are finished.
        done: Clients of the next round that have reported.
        absent: Those of them that the round goes on without.
        kept: How many of them sent an update that could be used.
        total: Sum of their updates, float32 (size,).
        tally: What became of all updates so far.
        losses: Of the local trainings since the last entry of the history.
        norms: The same, of the updates of a private run's providers before and after the clip.
        taken: Clients that took part, round by round.
        history: One entry a look at the validation part.
        stages: One entry for a stage of a client's round, where they are validated.
    """

    weights: Tensor
    round: int = 0
    done: int = 0
    absent: list[int] = field(default_factory=list)
    kept: int = 0
    total: Tensor | None = None
    tally: Counter[str] = field(default_factory=Counter)
    losses: list[float] = field(default_factory=list)
    norms: list[Norms] = field(default_factory=list)
    taken: list[list[int]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    stages: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[str, Tensor] = field(default_factory=dict)

    def save(self, path: Path, run: str) -> None:
        """Write it, whole or not at all."""
        record = {name: getattr(self, name) for name in _RECORDED}
        tensors = {"weights": self.weights, **{f"memory/{name}": value for name, value in self.memory.items()}}
        if self.total is not None:
            tensors["total"] = self.total
        write_state(path, run, {**record, "tally": dict(self.tally)}, tensors)

    @classmethod
    def restore(cls, path: Path, run: str, weights: Tensor) -> ServerState:
        """What was written, or the start of a run from ``weights``."""
        found = read_state(path, run)
        if found is None:
            return cls(weights)
        record, tensors = found
        memory = {name.removeprefix("memory/"): value for name, value in tensors.items() if name.startswith("memory/")}
        record["tally"] = Counter(record["tally"])
        return cls(tensors["weights"], total=tensors.get("total"), memory=memory, **record)


@dataclass(eq=False)
class Server:
    """Runs the rounds of a training.

    Attributes:
        clients: Numbers of the clients.
        plan: Privacy guarantee, or None.
        stream: Secret, for sampling and for the noise of empty rounds.
        run: Digest of what decides the run.
        rounds_before: Rounds of an earlier phase, which spent of the same budget.
        kept: Keeps every message of the rounds; None keeps none.
    """

    settings: FederatedSettings
    clients: Sequence[int]
    plan: PrivacyPlan | None
    stream: SecretStream
    path: Path
    run: str
    rounds_before: int = 0
    kept: KeptMessages | None = None

    def __post_init__(self) -> None:
        """Sort the clients, and find the strategy: an optimiser where units give gradients."""
        self.clients, settings = sorted(self.clients), self.settings
        self.strategy = STRATEGIES.named(settings.strategy)
        if self.plan is not None and self.plan.mechanism.unit != "provider":
            self.strategy = OptimizerStep(settings.optimizer, settings.learning_rate, settings.weight_decay)

    def task(self, number: int) -> RoundTask:
        """Participants of a round: K of N, or each drawn independently, possibly none; with privacy in secret."""
        if self.plan is None:
            rng = np.random.default_rng(seed_for(self.settings.seed, "clients", number))
            wanted = min(self.settings.clients_drawn(len(self.clients)), len(self.clients))
            if self.settings.order:
                return RoundTask(number, self.settings.in_order(number, wanted))
            drawn = rng.choice(self.clients, wanted, replace=False)
            return RoundTask(number, tuple(sorted(int(client) for client in drawn)))
        rate = self.plan.mechanism.sampling.client_rate
        if self.plan.mechanism.kind == "fixed-size":
            every = len(self.clients)
            chosen = self.stream.fixed_size_sample(self.settings.clients_drawn(every), every, "clients", number)
            return RoundTask(number, tuple(self.clients[at] for at in chosen))
        taken = (
            range(len(self.clients))
            if rate == 1
            else self.stream.poisson_sample(rate, len(self.clients), "clients", number)
        )
        return RoundTask(number, tuple(self.clients[at] for at in taken))

    def train(
        self, weights: Tensor, engine: Engine, look: Callable[[ServerState], dict[str, float]], progress: Progress
    ) -> ServerState:
        """Run all rounds, continuing where a killed run stopped.

        Args:
            weights: To begin with, float32 (size,).
            engine: Runs rounds on the clients.
            look: Scores a state on the validation part.
            progress: Reports every local training, or round of a private run, epsilon, and the validations.
        """
        state = ServerState.restore(self.path, self.run, weights)
        rounds = self.settings.rounds
        if self.kept is not None:
            taking = sum(len(self.task(number).clients) for number in range(1, rounds + 1))
            self.kept.begin(rounds + taking, begun=state.round + state.done > 0, done=state.round == rounds)
        work = [engine.work(self.task(number)) for number in range(1, rounds + 1)]
        if self.plan is not None:  # how many are drawn is as secret as who is
            work = [1] * rounds
        with progress.task("training", sum(work), sum(work[: state.round])) as bar:
            while state.round < rounds:
                note = f"round {state.round + 1} of {rounds}"
                if self.plan is None:
                    self.run_round(state, engine, partial(bar.advance, note=note))
                else:
                    self.run_round(state, engine, lambda _: None)
                    bar.advance(1, note)
                spent = self.plan.spent_after(self.rounds_before + state.round) if self.plan else None
                line = f"round {state.round}"
                if spent is None:
                    line += f": {len(state.taken[-1])} clients"
                else:
                    label = "" if spent.accounting == "valid" else " by published accounting"
                    line += f", epsilon {spent.epsilon:.2f} spent{label}"
                if state.round % self.settings.validate_every == 0 or state.round == rounds:
                    loss = {"loss": float(np.mean(state.losses))} if state.losses else {}
                    scores = look(state)
                    entry: dict[str, Any] = {"round": state.round, **loss, **mean_norms(state.norms), **scores}
                    if spent:
                        entry |= {"epsilon": spent.epsilon, "accounting": spent.accounting}
                    state.history.append(entry)
                    state.losses, state.norms = [], []
                    line += "".join(f", {name} {value:.3f}" for name, value in scores.items() if "/" not in name)
                progress.say(line)
                state.save(self.path, self.run)
        return state

    def run_round(self, state: ServerState, engine: Engine, advance: Callable[[int], None]) -> None:
        """Run the next round, and apply its update to the weights of the state; an interrupt saves whole reports."""
        task = replace(self.task(state.round + 1), absent=tuple(state.absent))
        total = state.total if state.total is not None else torch.zeros_like(state.weights)
        saved, whole = time.monotonic(), True
        if self.kept is not None:
            self.kept.model(task.number, state.weights)
        try:
            for report in engine.run(task, state.weights, advance, state.done):
                with held_interrupts():
                    whole = False  # a second interrupt may come while the report is added
                    self._add(state, task, report, total)
                    whole = True
                    if time.monotonic() - saved > _SAVE_SECONDS:
                        state.save(self.path, self.run)
                        saved = time.monotonic()
        except KeyboardInterrupt:
            if whole:
                state.save(self.path, self.run)
            raise
        taken = [client for client in task.clients if client not in state.absent]
        if self.plan is not None:
            if not task.clients and self.plan.mechanism.noise.carrier == "sum":
                total += self._whole_noise(len(total), task.number)
            total /= self.plan.denominator
        else:
            total /= max(1, state.kept)
            if self.settings.weighting == "data-printed":
                total /= max(1, len(taken))
        state.weights = self.strategy.step(state.weights, total, state.memory, self.settings.server_rate)
        state.taken.append(taken)
        state.round, state.done, state.absent, state.kept, state.total = state.round + 1, 0, [], 0, None

    def _add(self, state: ServerState, task: RoundTask, report: Report, total: Tensor) -> None:
        """Add the report of the next client to the round's sum, float32 (size,), and to the state."""
        client = task.clients[state.done]
        if report.tally["absent"]:
            state.absent.append(client)
        elif self.kept is not None:
            self.kept.message(task, state.done, report)
        weight = self._weight(report)
        total += report.update if weight == 1 else report.update * weight
        state.tally += report.tally
        state.losses += report.losses
        state.norms += report.norms
        state.stages += [
            {"round": task.number, "client": client, "stage": stage, **scores}
            for stage, scores in report.stages.items()
        ]
        state.done, state.total = state.done + 1, total
        state.kept += report.tally["kept"] if self.plan or self.settings.weighting == "uniform" else weight

    def _weight(self, report: Report) -> int:
        """Weight of an update in the sum of the round (federated-docvqa-pilot, equation 1)."""
        return 1 if self.plan or self.settings.weighting == "uniform" else report.queries

    def _whole_noise(self, size: int, number: int) -> Tensor:
        """Full noise for rounds without participants, so that an empty round is indistinguishable."""
        if self.plan is None:
            raise AssertionError("only private runs add noise")
        noise = GaussianNoise(self.plan.mechanism.noise.multiplier, self.plan.settings.clip, self.stream)
        return noise.share(size, number, SERVER, 1)

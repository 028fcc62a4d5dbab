"""A client's side of a round (privacy-aware-docvqa, algorithm 1, lines 10 to 19)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.dual import DualMemory
from pfl_audit.training.federated.gaussian_mechanism import GaussianNoise, clip, norm_of
from pfl_audit.training.federated.local import Trainer
from pfl_audit.training.federated.messages import Norms, Report
from pfl_audit.training.federated.partial import Partial, Sum
from pfl_audit.training.federated.secure_rng import SecretStream, smallest
from pfl_audit.training.federated.settings import PrivacySettings
from pfl_audit.training.federated.together import Job
from pfl_audit.training.interrupts import held_interrupts


@dataclass(frozen=True)
class ClientPrivacy:
    """Privacy mechanism of a client.

    Attributes:
        settings: Decide which of its providers take part in a round.
        noise: Noise of a round, of which the client adds its share.
        stream: Secret random stream of the sampling.
        memory: Dual variable between rounds, or None.
        whole: Whether the client adds the full noise to its own message, and not its share.
    """

    settings: PrivacySettings
    noise: GaussianNoise
    stream: SecretStream
    memory: DualMemory | None = None
    whole: bool = False


class Worker:
    """Runs the rounds of one client.

    Args:
        privacy: Providers as virtual clients, clipped and noised; None for one plain update.
        partial: Storage of an unfinished round.
    """

    def __init__(
        self, client: Client, trainer: Trainer, privacy: ClientPrivacy | None, partial: Partial | None = None
    ) -> None:
        self.client = client
        self.trainer = trainer
        self._privacy = privacy
        self._partial = partial
        self._moved: Tensor | None = None
        self._checked = False
        self._whole = True

    @property
    def private(self) -> bool:
        """Whether its providers are virtual clients, clipped and noised."""
        return self._privacy is not None

    def drawn(self, round_number: int) -> list[int]:
        """Indices of the participating providers: each drawn independently, a group of a fixed size, or by turns."""
        if self._privacy is None:
            return [0]
        stream, settings = self._privacy.stream, self._privacy.settings
        if settings.sampling == "schedule" and settings.separation is not None:
            turns = stream.turns(settings.separation, self.client.number, self.client.tags)
            return np.flatnonzero(turns == (round_number - 1) % settings.separation).tolist()
        context = "providers", round_number, self.client.number
        numbers = np.array([stream.uniform(1, *context, tag)[0] for tag in self.client.tags])
        if settings.sampling == "fixed-size" and settings.providers_per_round is not None:
            return smallest(numbers, settings.providers_per_round)
        return np.flatnonzero(numbers < settings.provider_rate).tolist()

    def report(self, round_number: int, participants: int, weights: Tensor, advance: Callable[[int], None]) -> Report:
        """Train for a round and report the update.

        Args:
            round_number: From 1.
            participants: Number of participating clients; each adds its share of the noise, or all of it.
            weights: The global model, float32 (size,).
            advance: Called for every finished provider.

        Raises:
            AuditError: The first report left a trainable tensor as it was, or moved a frozen one.
        """
        if self._privacy is None:
            rows, who = self.whole_job(round_number)
            return self.whole_report(round_number, self._train(weights, rows, *who), advance)
        kept = self._partial.load(round_number, self.client.number) if self._partial else None
        norms: list[Norms]
        done, total, tally, losses, norms = kept or (0, torch.zeros_like(weights), Counter(), [], [])
        self._whole = not done
        memory = self._privacy.memory
        dual = memory.dual(round_number, weights) if memory else None
        advance(done)
        drawn = self.drawn(round_number)
        jobs: list[Job] = [
            (self.client.providers[provider], (round_number, self.client.number, self.client.tags[provider]))
            for provider in drawn
        ]
        finished: Sum | None = (done, total, tally, losses, norms)
        try:
            for at, (update, loss) in enumerate(self._train_each(weights, jobs, done), done + 1):
                with held_interrupts():
                    finished = None  # a second interrupt may come while the update is added
                    whole = update if dual is None else update + dual
                    clipped, verdict = clip(whole, self._privacy.settings.clip)
                    total += clipped
                    tally[verdict] += 1
                    norms += [(norm_of(whole), norm_of(clipped))] if verdict != "dropped" else []
                    losses += [loss] if math.isfinite(loss) else []
                    finished = (at, total, tally, losses, norms)
                    advance(1)
                    if self._partial and at < len(drawn):
                        self._partial.save(round_number, self.client.number, finished)
        except KeyboardInterrupt:
            if self._partial and finished and finished[0] < len(drawn):
                self._partial.save(round_number, self.client.number, finished, at_once=True)
            raise
        self._check()
        shares = 1 if self._privacy.whole else participants
        total += self._privacy.noise.share(len(total), round_number, self.client.number, shares)
        if memory and dual is not None:
            memory.keep(round_number, dual, weights, total)
        return Report(total, tally, tuple(losses), tuple(norms), rows=self._rows(jobs))

    def whole_job(self, round_number: int) -> Job:
        """The one local training of a round without privacy: on everything that the client holds."""
        rows = [row for held in self.client.providers for row in held]
        return rows, (round_number, self.client.number)

    def whole_report(self, round_number: int, found: tuple[Tensor, float], advance: Callable[[int], None]) -> Report:
        """The report without privacy, from update and mean loss of ``whole_job``.

        Raises:
            AuditError: As of ``report``.
        """
        update, loss = found
        if self._moved is None and bool(torch.isfinite(update).all()) and bool(update.any()):
            self._moved = self.trainer.trainable.late.clone()
        self._note(update)
        self._check()
        advance(1)
        if not bool(torch.isfinite(update).all()):
            return Report(torch.zeros_like(update), Counter(dropped=1))
        queries = sum(map(len, self.client.providers))
        rows = self._rows([self.whole_job(round_number)])
        return Report(update, Counter(kept=1), (loss,), queries=queries, rows=rows)

    def _rows(self, jobs: Iterable[Job]) -> tuple[int, ...]:
        """Rows that jobs train on."""
        return tuple(row for rows, who in jobs for batch in self.trainer.batches(rows, *who) for row in batch)

    def _train_each(self, weights: Tensor, jobs: list[Job], done: int) -> Iterator[tuple[Tensor, float]]:
        """Train for every provider from number ``done`` on.

        One at a time, and checked, until one has moved what it should. Providers that share a pass share it with the
        same ones in a run that was cut, so that rounding is the same: what was done alone or before is computed again.
        """
        alone, together = done, self.trainer.together
        while alone < len(jobs) and self._moved is None:
            rows, who = jobs[alone]
            found = self._train(weights, rows, *who)
            if together == 1:
                yield found
            alone += 1
        wanted = alone if together == 1 else done
        begin = wanted - wanted % together
        for at, (update, loss) in enumerate(self.trainer.train_each(weights, jobs[begin:]), begin):
            if at >= wanted:
                self._note(update)
                yield update, loss

    def _train(self, weights: Tensor, rows: Sequence[int], *who: int) -> tuple[Tensor, float]:
        trainable = self.trainer.trainable
        frozen = trainable.frozen_digest() if self._moved is None else None
        update, loss = self.trainer.train(weights, rows, *who)
        if frozen is not None and bool(torch.isfinite(update).all()) and bool(update.any()):
            trainable.require_frozen(frozen)
            self._moved = trainable.late.clone()
        self._note(update)
        return update, loss

    def _note(self, update: Tensor) -> None:
        """Record which tensors have moved."""
        if self._checked or self._moved is None or bool(self._moved.all()):
            return
        if bool(torch.isfinite(update).all()):
            self._moved |= self.trainer.trainable.moved(update)

    def _check(self) -> None:
        """Check the first report that is not empty and was not begun by an earlier process."""
        if not self._checked and self._moved is not None and self._whole:
            self.trainer.trainable.require_moved(self._moved)
            self._checked = True

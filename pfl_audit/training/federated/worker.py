"""A client's side of a round (privacy-aware-docvqa, algorithm 1, lines 10 to 19)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.dual import DualMemory
from pfl_audit.training.federated.gaussian_mechanism import GaussianNoise, clip
from pfl_audit.training.federated.local import Job, Trainer
from pfl_audit.training.federated.messages import Report
from pfl_audit.training.federated.partial import Partial
from pfl_audit.training.federated.secure_rng import SecretStream, smallest
from pfl_audit.training.federated.settings import PrivacySettings


@dataclass(frozen=True)
class ClientPrivacy:
    """Privacy mechanism of a client.

    Attributes:
        settings: Decide which of its providers take part in a round.
        noise: Noise of a round, of which the client adds its share.
        stream: Secret random stream of the sampling.
        memory: Dual variable between rounds, or None. With one the client adds the full noise to its own message.
    """

    settings: PrivacySettings
    noise: GaussianNoise
    stream: SecretStream
    memory: DualMemory | None = None


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
        self._trainer = trainer
        self._privacy = privacy
        self._partial = partial
        self._moved: Tensor | None = None
        self._checked = False
        self._whole = True

    def drawn(self, round_number: int) -> list[int]:
        """Indices of the participating providers: each drawn independently, or a group of a fixed size."""
        if self._privacy is None:
            return [0]
        stream, settings = self._privacy.stream, self._privacy.settings
        context = "providers", round_number, self.client.number
        numbers = np.array([stream.uniform(1, *context, tag)[0] for tag in self.client.tags])
        if settings.sampling == "fixed-size" and settings.providers_per_round is not None:
            return smallest(numbers, settings.providers_per_round)
        drawn: list[int] = np.flatnonzero(numbers < settings.provider_rate).tolist()
        return drawn

    def report(self, round_number: int, participants: int, weights: Tensor, advance: Callable[[int], None]) -> Report:
        """Train for a round and report the update.

        Args:
            round_number: From 1.
            participants: Number of participating clients; each adds its share of the noise, or with a memory all of it.
            weights: The global model, float32 (size,).
            advance: Called for every finished provider.

        Raises:
            AuditError: The first report left a trainable tensor as it was, or moved a frozen one.
        """
        if self._privacy is None:
            rows = [row for held in self.client.providers for row in held]
            update, loss = self._train(weights, rows, round_number, self.client.number)
            self._check()
            advance(1)
            if not bool(torch.isfinite(update).all()):
                return Report(torch.zeros_like(update), Counter(dropped=1))
            return Report(update, Counter(kept=1), (loss,), len(rows))
        kept = self._partial.load(round_number, self.client.number) if self._partial else None
        done, total, tally, losses = kept or (0, torch.zeros_like(weights), Counter(), [])
        self._whole = not done
        memory = self._privacy.memory
        dual = memory.dual(round_number, weights) if memory else None
        advance(done)
        drawn = self.drawn(round_number)
        jobs: list[Job] = [
            (self.client.providers[provider], (round_number, self.client.number, self.client.tags[provider]))
            for provider in drawn[done:]
        ]
        for at, (update, loss) in enumerate(self._train_each(weights, jobs), done + 1):
            clipped, verdict = clip(update if dual is None else update + dual, self._privacy.settings.clip)
            total += clipped
            tally[verdict] += 1
            losses += [loss] if math.isfinite(loss) else []
            advance(1)
            if self._partial and at < len(drawn):
                self._partial.save(round_number, self.client.number, (at, total, tally, losses))
        self._check()
        total += self._privacy.noise.share(len(total), round_number, self.client.number, 1 if memory else participants)
        if memory and dual is not None:
            memory.keep(round_number, dual, weights, total)
        return Report(total, tally, tuple(losses))

    def _train_each(self, weights: Tensor, jobs: list[Job]) -> Iterator[tuple[Tensor, float]]:
        """Train for every provider; one at a time, and checked, until one has moved what it should."""
        alone = 0
        while alone < len(jobs) and self._moved is None:
            rows, who = jobs[alone]
            yield self._train(weights, rows, *who)
            alone += 1
        for update, loss in self._trainer.train_each(weights, jobs[alone:]):
            self._note(update)
            yield update, loss

    def _train(self, weights: Tensor, rows: Sequence[int], *who: int) -> tuple[Tensor, float]:
        trainable = self._trainer.trainable
        frozen = trainable.frozen_digest() if self._moved is None else None
        update, loss = self._trainer.train(weights, rows, *who)
        if frozen is not None and bool(torch.isfinite(update).all()) and bool(update.any()):
            trainable.require_frozen(frozen)
            self._moved = trainable.late.clone()
        self._note(update)
        return update, loss

    def _note(self, update: Tensor) -> None:
        """Record which tensors have moved."""
        if not self._checked and self._moved is not None and bool(torch.isfinite(update).all()):
            self._moved |= self._trainer.trainable.moved(update)

    def _check(self) -> None:
        """Check the first report that is not empty and was not begun by an earlier process."""
        if not self._checked and self._moved is not None and self._whole:
            self._trainer.trainable.require_moved(self._moved)
            self._checked = True

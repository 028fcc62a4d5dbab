"""A run of the private trainer in which canaries are the only providers.

Clients, sampling, clipping, noise, engine and server are those of ``train``; local training is left out, and the update
of a canary is its direction, longer than the clipping norm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.progress import Progress
from pfl_audit.training.federated.canaries.directions import Directions
from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.codecs import FLOAT32
from pfl_audit.training.federated.engine import LocalEngine
from pfl_audit.training.federated.run import Federation
from pfl_audit.training.federated.server import STATE_FILE, Server, ServerState
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.federated.together import Job
from pfl_audit.training.trainable import Trainable

LENGTH = 10.0
"""Norm of a canary's update before clipping, in clipping norms."""
_MOST_PROJECTIONS = 1 << 26


@dataclass(frozen=True)
class Observation:
    """Noisy sums of all rounds, projected on the directions of the canaries.

    Attributes:
        projections: In clipping norms, float64 (rounds, canaries).
        active: Whether the client of a canary takes part in a round, bool (rounds, canaries).
    """

    projections: NDArray[np.float64]
    active: NDArray[np.bool_]


class _CanaryTrainer:
    """Returns directions where LocalTrainer trains; the row of an example is the number of a canary."""

    together = 1

    def __init__(self, directions: Directions, length: float) -> None:
        network = nn.Module()
        network.register_parameter("canaries", nn.Parameter(torch.zeros(directions.size)))
        self.trainable = Trainable(network)
        self._directions = directions
        self._length = length

    def train(self, weights: Tensor, rows: Sequence[int], *who: int) -> tuple[Tensor, float]:
        return torch.from_numpy(self._directions.direction(rows[0])) * self._length, 0.0

    def train_each(self, weights: Tensor, jobs: Sequence[Job]) -> Iterator[tuple[Tensor, float]]:
        return (self.train(weights, rows, *who) for rows, who in jobs)

    def batches(self, rows: Sequence[int], *who: int) -> Iterator[list[int]]:
        yield list(rows)


def observe(
    claim: PrivacyGuarantee,
    manifest: Manifest,
    clients: int,
    folder: Path,
    progress: Progress,
    noise_seed: int | None = None,
) -> Observation:
    """Run all rounds of a guarantee with canaries.

    Args:
        claim: Decides sampling, rounds, clipping norm and noise.
        manifest: Decides which canaries are providers.
        clients: Number of clients that the canaries are divided among.
        folder: An empty one, for the secret key and the unfinished round.
        progress: Reports every round.
        noise_seed: Seed of the sampling and the noise, or None for a secret key.

    Raises:
        NotAuditableError, UsageError: See check_run.
        AuditError: A noisy sum is not finite.
    """
    check_run(claim, manifest, clients)
    return _observe(_federation(claim, folder, noise_seed), claim, manifest, clients, progress)


def check_run(claim: PrivacyGuarantee, manifest: Manifest, clients: int) -> None:
    """Refuse a run that cannot be.

    Raises:
        NotAuditableError: The trainer does not have the sampling.
        UsageError: There are fewer canaries than clients, or more projections than memory.
    """
    if claim.noise != "sum":
        raise NotAuditableError(
            "the guarantee has the full noise on each client's message, and the canaries test noise on the sum",
            "Give that of a run without --client-memory",
        )
    if claim.sampling.kind != "poisson" or claim.forced_participation:
        raise NotAuditableError(
            "the guarantee is not one of Poisson sampling, which the trainer uses", "Give that of a run by Poisson"
        )
    if not 1 <= clients <= manifest.canaries:
        raise UsageError(
            f"{manifest.canaries} canaries cannot be divided among {clients} clients", "Give 1 to that many clients"
        )
    if claim.rounds * manifest.canaries > _MOST_PROJECTIONS:
        most = _MOST_PROJECTIONS // claim.rounds
        raise UsageError(
            f"{manifest.canaries} canaries in {claim.rounds} rounds do not fit in memory", f"Give at most {most}"
        )


def _federation(claim: PrivacyGuarantee, folder: Path, noise_seed: int | None) -> Federation:
    privacy = PrivacySettings(
        sampling=claim.sampling.scheme,
        client_rate=claim.sampling.client_rate,
        provider_rate=claim.sampling.provider_rate,
        clip=claim.clip,
        epsilon=None,
        noise_multiplier=claim.noise_multiplier,
        delta=claim.delta,
        accounting=claim.accounting,
        denominator=claim.denominator,
        noise_seed=noise_seed,
    )
    return Federation("fl-dp", FederatedSettings(rounds=claim.rounds), privacy, folder, {"canaries": True})


def _observe(
    federation: Federation, claim: PrivacyGuarantee, manifest: Manifest, count: int, progress: Progress
) -> Observation:
    directions = Directions(manifest.canaries, bytes.fromhex(manifest.salt))
    trainer = _CanaryTrainer(directions, LENGTH * claim.clip)
    clients = [_client(number, range(number, manifest.canaries, count), manifest.coins) for number in range(count)]
    plan, stream = federation.plan(clients), federation.stream()
    if plan is None:
        raise AssertionError("the settings are those of a private run")
    workers = {client.number: federation.worker(client, trainer, plan, stream) for client in clients}
    engine = LocalEngine(workers, FLOAT32, torch.zeros(directions.size))
    path = federation.out / STATE_FILE
    server = Server(federation.settings, range(count), plan, stream, path, federation.digest)
    state = ServerState(torch.zeros(directions.size))
    projections = np.empty((claim.rounds, manifest.canaries))
    active = np.empty(projections.shape, dtype=np.bool_)
    home = np.arange(manifest.canaries) % count
    with progress.task("rounds with canaries", claim.rounds) as bar:
        for at in range(claim.rounds):
            state.weights = torch.zeros(directions.size)
            server.run_round(state, engine, lambda _: None)
            projections[at] = directions.project((state.weights * (plan.denominator / claim.clip)).numpy())
            active[at] = np.isin(home, state.taken[-1])
            bar.advance(1)
    if not np.isfinite(projections).all():
        raise AuditError(
            "the noisy sums are not finite", "Check clip, noise multiplier and denominator of the guarantee"
        )
    return Observation(projections, active)


def _client(number: int, canaries: range, coins: NDArray[np.bool_]) -> Client:
    included = [canary for canary in canaries if coins[canary]]
    return Client(number, tuple((canary,) for canary in included), tuple(included))

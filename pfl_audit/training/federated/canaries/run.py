"""A run of the private trainer in which canaries are the only units of privacy.

Clients, sampling, clipping, noise, engine and server are those of ``train``; local training is left out, and the update
of a canary is its direction, longer than the clipping norm. Its coin decides between two data sets that are adjacent:
with Poisson draws whether it is a provider, and in groups of a fixed size, where a provider is replaced, the sign of
its update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.correlation import Correlation
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.privacy.mechanism import Mechanism
from pfl_audit.privacy.mechanism_parts import Clip, Codec, Dual
from pfl_audit.privacy.mechanism_parts import Server as ServerPart
from pfl_audit.progress import Progress
from pfl_audit.training.federated.canaries.directions import Directions
from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.codecs import CODECS
from pfl_audit.training.federated.engine import LocalEngine
from pfl_audit.training.federated.messages import Report, RoundTask
from pfl_audit.training.federated.run import Federation
from pfl_audit.training.federated.server import STATE_FILE, Server, ServerState
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.federated.strategies import ServerStrategy
from pfl_audit.training.federated.together import Job
from pfl_audit.training.trainable import Trainable

LENGTH = 10.0
"""Norm of a canary's update before clipping, in clipping norms."""
BESIDE_DUAL = 1e6
"""The same where a dual variable is added before clipping: so long that the clipped sum has its direction."""
_MOST_PROJECTIONS = 1 << 26
_ROUNDING = 1e-9
"""Added to a product of a number and a rate before it is rounded down, since the product may be just below a whole."""


@dataclass(frozen=True)
class Observation:
    """What the observer that a guarantee assumes sees in all rounds, projected on directions, in clipping norms.

    Attributes:
        projections: On the directions of the canaries, float64 (rounds, canaries): of the noisy sum, or, where every
            client's message has the full noise, of the message of the canary's client.
        active: Whether the client of a canary takes part in a round, and it is the turn of the canary where a schedule
            decides, bool (rounds, canaries).
        noise: On directions that no update has, float64 (n, m): a row for the sum of each round, or for each message.
        replaced: Whether the coin of a canary decides the sign of its update, and not whether it has one.
        correlation: Correlation of the noise over the rounds of a schedule; None where providers are drawn.
    """

    projections: NDArray[np.float64]
    active: NDArray[np.bool_]
    noise: NDArray[np.float64]
    replaced: bool = False
    correlation: Correlation | None = None

    @property
    def matched(self) -> NDArray[np.float64]:
        """Projections of which those of a canary's turns hold all of its updates, float64 (rounds, canaries)."""
        return self.projections if self.correlation is None else self.correlation.matched(self.projections)

    @property
    def independent_noise(self) -> NDArray[np.float64]:
        """The noise without its correlation over rounds, float64 (n, m)."""
        if self.correlation is None or not self.noise.size:
            return self.noise
        return self.correlation.whiten(self.noise.reshape(len(self.projections), -1)).reshape(self.noise.shape)


class _CanaryTrainer:
    """Returns directions where LocalTrainer trains; the row of an example is the number of a canary.

    Args:
        lengths: Length of the update of each canary along its direction, of either sign.
    """

    together = 1

    def __init__(self, directions: Directions, lengths: NDArray[np.float64]) -> None:
        network = nn.Module()
        network.register_parameter("canaries", nn.Parameter(torch.zeros(directions.size)))
        self.trainable = Trainable(network)
        self._directions = directions
        self._lengths = lengths

    def train(self, weights: Tensor, rows: Sequence[int], *who: int) -> tuple[Tensor, float]:
        return torch.from_numpy(self._directions.direction(rows[0])) * float(self._lengths[rows[0]]), 0.0

    def train_each(self, weights: Tensor, jobs: Sequence[Job]) -> Iterator[tuple[Tensor, float]]:
        return (self.train(weights, rows, *who) for rows, who in jobs)

    def batches(self, rows: Sequence[int], *who: int) -> Iterator[list[int]]:
        yield list(rows)


def observe(
    claim: PrivacyGuarantee,
    mechanism: Mechanism,
    manifest: Manifest,
    clients: int,
    folder: Path,
    progress: Progress,
    noise_seed: int | None = None,
) -> Observation:
    """Run all rounds of a mechanism with canaries.

    Args:
        claim: Stated guarantee of the mechanism.
        mechanism: Decides draws, rounds, clip, noise and its carrier, codec, dual variable and server strategy.
        manifest: Decides which canaries are providers.
        clients: Number of clients that the canaries are divided among.
        folder: An empty one, for the secret key and the unfinished round.
        progress: Reports every round.
        noise_seed: Seed of the sampling and the noise, or None for a secret key.

    Raises:
        NotAuditableError, UsageError: See check_run.
        AuditError: A noisy sum is not finite.
    """
    check_run(claim, mechanism, manifest, clients)
    federation = _federation(mechanism, claim.denominator, manifest.canaries, clients, folder, noise_seed)
    return _observe(federation, mechanism, manifest, clients, progress)


def check_run(claim: PrivacyGuarantee, mechanism: Mechanism, manifest: Manifest, clients: int) -> None:
    """Refuse a run that cannot be.

    Raises:
        NotAuditableError: The trainer does not have the sampling.
        UsageError: There are fewer canaries than clients, too few of either to draw any of them, or more projections
            than memory.
    """
    if claim.forced_participation:
        raise NotAuditableError(
            "the guarantee forces a provider into empty rounds, which the trainer never does",
            "Account for Poisson draws",
        )
    if not 1 <= clients <= manifest.canaries:
        raise UsageError(
            f"{manifest.canaries} canaries cannot be divided among {clients} clients", "Give 1 to that many clients"
        )
    if mechanism.kind == "fixed-size" and 0 in _groups(mechanism, manifest.canaries, clients):
        raise UsageError(
            f"of {clients} clients, or of the {manifest.canaries // clients} canaries of each, none would be drawn",
            "Raise --clients or --canaries",
        )
    if mechanism.rounds * manifest.canaries > _MOST_PROJECTIONS:
        most = _MOST_PROJECTIONS // mechanism.rounds
        raise UsageError(
            f"{manifest.canaries} canaries in {mechanism.rounds} rounds do not fit in memory", f"Give at most {most}"
        )


def _groups(mechanism: Mechanism, canaries: int, clients: int) -> tuple[int, int]:
    """Clients a round, and canaries of each, for groups of a fixed size: rounded down, so that no rate is exceeded."""
    drawn, sampling = canaries // clients, mechanism.draw
    return int(clients * sampling.client_rate + _ROUNDING), int(drawn * sampling.provider_rate + _ROUNDING)


def _federation(
    mechanism: Mechanism, denominator: float, canaries: int, clients: int, folder: Path, noise_seed: int | None
) -> Federation:
    last = mechanism.phases[-1]
    dual = next((one.start for one in last.parts if isinstance(one, Dual)), None)
    settings = FederatedSettings(
        rounds=mechanism.rounds,
        client_memory={None: "none", "random": "clgecl", "zero": "clgecl-zero"}[dual],  # type: ignore[arg-type]
        codec=last.part(Codec).name,
        **{"strategy" if mechanism.unit == "provider" else "optimizer": last.part(ServerPart).strategy},  # type: ignore[arg-type]
    )
    privacy = PrivacySettings(
        unit=mechanism.unit,
        clip=last.part(Clip).bound,
        epsilon=None,
        noise_multiplier=mechanism.noise.multiplier,
        noise=mechanism.noise.carrier,
        noise_seed=noise_seed,
    )
    if mechanism.kind == "schedule":
        bands = len(mechanism.noise.strategy)
        privacy = replace(privacy, sampling="schedule", separation=mechanism.draw.separation, bands=bands)
        privacy = replace(privacy, denominator=denominator)
    elif mechanism.kind == "fixed-size":
        taking, providers = _groups(mechanism, canaries, clients)
        settings = replace(settings, clients_per_round=taking)
        privacy = replace(
            privacy, sampling="fixed-size", providers_per_round=providers, minimum_providers=canaries // clients
        )
    else:
        privacy = replace(
            privacy,
            sampling="providers" if mechanism.draw.client_rate == 1 else "clients",
            client_rate=mechanism.draw.client_rate,
            provider_rate=mechanism.draw.provider_rate,
            denominator=denominator,
        )
    return Federation("fl-dp", settings, privacy, folder, {"canaries": True})


class _Applied:
    """A server strategy that also keeps the update that it applies."""

    def __init__(self, strategy: ServerStrategy) -> None:
        self._strategy = strategy
        self.update = torch.zeros(0)

    def step(self, weights: Tensor, update: Tensor, memory: dict[str, Tensor], rate: float) -> Tensor:
        self.update = update.clone()
        return self._strategy.step(weights, update, memory, rate)


class _Overheard:
    """An engine that also hands each message to a function, as its server sees it.

    Args:
        hear: Gets the number of the round, from 1, that of the client, and its message.
    """

    def __init__(self, engine: LocalEngine, hear: Callable[[int, int, Tensor], None]) -> None:
        self._engine, self._hear = engine, hear

    def work(self, task: RoundTask) -> int:
        return self._engine.work(task)

    def run(self, task: RoundTask, weights: Tensor, advance: Callable[[int], None], done: int = 0) -> Iterator[Report]:
        for client, report in zip(task.clients[done:], self._engine.run(task, weights, advance, done), strict=True):
            self._hear(task.number, client, report.update)
            yield report


def _observe(
    federation: Federation, mechanism: Mechanism, manifest: Manifest, count: int, progress: Progress
) -> Observation:
    replaced, coins = mechanism.kind == "fixed-size", manifest.coins
    bound, whole = mechanism.phases[-1].part(Clip).bound, mechanism.noise.carrier == "message"
    # Where canaries are replaced, all of them are providers: noise alone is on further directions.
    every = manifest.canaries + (max(1, manifest.canaries // 2) if replaced else 0)
    directions = Directions(every, bytes.fromhex(manifest.salt))
    length = bound * (BESIDE_DUAL if federation.settings.client_memory != "none" else LENGTH)
    trainer = _CanaryTrainer(directions, length * np.where(coins, 1.0, -1.0))
    included = np.ones_like(coins) if replaced else coins
    clients = [_client(number, range(number, manifest.canaries, count), included) for number in range(count)]
    plan, stream = federation.plan(clients), federation.stream()
    if plan is None:
        raise AssertionError("the settings are those of a private run")
    plan = replace(plan, mechanism=mechanism.with_clients(len(clients)))
    workers = {client.number: federation.worker(client, trainer, plan, stream) for client in clients}
    path = federation.out / STATE_FILE
    server = Server(federation.settings, range(count), plan, stream, path, federation.digest)
    server.strategy = applied = _Applied(server.strategy)
    state = ServerState(torch.zeros(directions.size))
    seen = np.zeros((mechanism.rounds, every))
    active = np.empty(seen.shape, dtype=np.bool_)
    home, separation = np.arange(every) % count, mechanism.draw.separation or 1
    turns = np.array([int(stream.turns(separation, number % count, [number])[0]) for number in range(every)])
    still = np.append(~included, np.ones(every - len(coins), dtype=np.bool_))
    noise = list[NDArray[np.float64]]()

    def hear(number: int, client: int, message: Tensor) -> None:
        """Project a message as its observer decodes it, where messages have the full noise."""
        if whole:
            found = directions.project((message / bound).numpy())
            seen[number - 1, home == client] = found[home == client]
            noise.append(found[still])

    codec = CODECS.named(federation.settings.codec)
    engine = _Overheard(LocalEngine(workers, codec, torch.zeros(directions.size)), hear)
    with progress.task("rounds with canaries", mechanism.rounds) as bar:
        for at in range(mechanism.rounds):
            state.weights = torch.zeros(directions.size)
            server.run_round(state, engine, lambda _: None)
            active[at] = np.isin(home, state.taken[-1]) & (turns == at % separation)
            if not whole:
                seen[at] = directions.project((applied.update * (plan.denominator / bound)).numpy())
                noise.append(seen[at, still])
            bar.advance(1)
    if not np.isfinite(seen).all():
        raise AuditError(
            "the noisy sums are not finite", "Check clip, noise multiplier and denominator of the guarantee"
        )
    canaries = slice(manifest.canaries)
    alone = np.array(noise).reshape(-1, still.sum())
    correlation = mechanism.correlation if mechanism.kind == "schedule" else None
    return Observation(seen[:, canaries], active[:, canaries], alone, replaced, correlation)


def _client(number: int, canaries: range, included: NDArray[np.bool_]) -> Client:
    providers = [canary for canary in canaries if included[canary]]
    return Client(number, tuple((canary,) for canary in providers), tuple(providers))

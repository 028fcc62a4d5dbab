"""DP-CLGECL: a dual variable of every client between rounds (pfl-docvqa-competition, appendix D.2)."""

import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.privacy.accounting import privacy_spent
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.privacy.mechanism import Mechanism
from pfl_audit.privacy.review import review_record
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.training.federated.canaries.run import check_run
from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.codecs import FLOAT32
from pfl_audit.training.federated.dual import FILES, DualMemory
from pfl_audit.training.federated.engine import LocalEngine
from pfl_audit.training.federated.plan import plan_privacy
from pfl_audit.training.federated.run import Federation
from pfl_audit.training.federated.secure_rng import SecretStream, new_key
from pfl_audit.training.federated.server import STATE_FILE, Server, ServerState
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.federated.together import Job
from pfl_audit.training.trainable import Trainable
from tests.oracles import clgecl
from tests.training.federated.conftest import PRIVATE, QUICK, Federate
from tests.training.federated.test_refusals import Cut2

SIZE, TARGETS = 6, np.random.default_rng(0).normal(size=(15, 6))
DUAL = replace(QUICK, client_memory="clgecl")
GROUPS = replace(PRIVATE, sampling="fixed-size", providers_per_round=2, minimum_providers=5, public_providers=None)
CLIENTS = replace(PRIVATE, sampling="clients", client_rate=0.5, public_providers=15)


class Toward:
    """Moves half of the way to the target of a row."""

    together = 1

    def __init__(self) -> None:
        network = nn.Module()
        network.register_parameter("weights", nn.Parameter(torch.zeros(SIZE)))
        self.trainable = Trainable(network)

    def train(self, weights: Tensor, rows: Sequence[int], *who: int) -> tuple[Tensor, float]:
        return (torch.from_numpy(TARGETS[rows[0]]).float() - weights) / 2, 0.0

    def train_each(self, weights: Tensor, jobs: Sequence[Job]) -> Iterator[tuple[Tensor, float]]:
        return (self.train(weights, rows, *who) for rows, who in jobs)

    def batches(self, rows: Sequence[int], *who: int) -> Iterator[list[int]]:
        """One."""
        yield list(rows)


def federation(folder: Path, privacy: PrivacySettings, settings: FederatedSettings) -> tuple[Federation, list[Client]]:
    held = [tuple((row,) for row in range(5 * number, 5 * number + 5)) for number in range(3)]
    clients = [Client(number, rows, tuple(range(5))) for number, rows in enumerate(held)]
    return Federation("fl-dp", settings, privacy, folder, {"test": True}), clients


def run_rounds(folder: Path, privacy: PrivacySettings, settings: FederatedSettings) -> tuple[list[Tensor], Any]:
    """Global models after each round, and what the oracle needs."""
    run, clients = federation(folder, privacy, settings)
    plan, stream = run.plan(clients), run.stream()
    assert plan is not None
    workers = {client.number: run.worker(client, Toward(), plan, stream) for client in clients}
    server = Server(settings, range(3), plan, stream, folder / STATE_FILE, run.digest)
    state, found = ServerState(torch.zeros(SIZE)), []
    for _ in range(settings.rounds):
        server.run_round(state, LocalEngine(workers, FLOAT32, torch.zeros(SIZE)), lambda _: None)
        found.append(state.weights.clone())
    drawn = [
        {client: [5 * client + at for at in workers[client].drawn(number)] for client in taken}
        for number, taken in enumerate(state.taken, 1)
    ]
    return found, (plan, stream, drawn)


@pytest.mark.parametrize("memory", ["clgecl", "clgecl-zero"])
@pytest.mark.parametrize("privacy", [GROUPS, CLIENTS])
def test_rounds_are_those_of_the_printed_algorithm(tmp_path: Path, privacy: PrivacySettings, memory: Any) -> None:
    settings = replace(DUAL, rounds=6, client_memory=memory, clients_per_round=2)
    found, (plan, stream, drawn) = run_rounds(tmp_path, privacy, settings)
    scale = privacy.clip / np.sqrt(SIZE) if memory == "clgecl" else 0.0
    expected = clgecl.train(
        np.zeros(SIZE),
        drawn,
        lambda row, weights: weights + (TARGETS[row] - weights) / 2,
        lambda number, client: (
            plan.mechanism.noise.multiplier * privacy.clip * stream.normal(SIZE, "noise", number, client).astype(float)
        ),
        lambda client: scale * stream.normal(SIZE, "dual", client).astype(float),
        privacy.clip,
        (plan.denominator / plan.client_divisor, plan.client_divisor),
    )
    assert any(len(taken) > 0 for taken in drawn)
    np.testing.assert_allclose(torch.stack(found).numpy(), np.stack(expected), rtol=2e-5, atol=1e-6)
    plain, _ = run_rounds(tmp_path / "plain", privacy, replace(settings, client_memory="none"))
    assert not np.allclose(plain[-1].numpy(), expected[-1], atol=1e-3)


def test_the_divisors_are_the_numbers_to_expect() -> None:
    groups = plan_privacy("fl-dp", GROUPS, replace(DUAL, clients_per_round=2), 3)
    assert (groups.denominator, groups.client_divisor) == (4, pytest.approx(2))
    clients = plan_privacy("fl-dp", CLIENTS, DUAL, 3)
    assert (clients.denominator, clients.client_divisor) == (pytest.approx(4.5), pytest.approx(3))  # 0.6 of 5


def test_a_round_without_clients_moves_nothing(tmp_path: Path) -> None:
    rare = replace(CLIENTS, client_rate=0.01, denominator=1.0)
    found, (_, _, drawn) = run_rounds(tmp_path, rare, replace(DUAL, rounds=2))
    assert drawn == [{}, {}]
    assert not torch.stack(found).any()


def test_a_repeated_round_has_the_same_dual(tmp_path: Path) -> None:
    memory = DualMemory(tmp_path, "run", 0, 2.0, 0.5, SecretStream(new_key(1)))
    weights = torch.zeros(4000)
    first = memory.dual(1, weights)
    assert float(first.norm()) == pytest.approx(0.5, rel=0.05)
    memory.keep(1, first, weights, torch.ones(4000))
    assert torch.equal(memory.dual(1, weights), first)  # killed before the server had the message
    torch.testing.assert_close(memory.dual(3, weights + 1), first + (1 - 0.5))
    assert stat.S_IMODE((tmp_path / "client-memory-0.safetensors").stat().st_mode) == 0o600
    memory.keep(3, first, weights, weights)
    with pytest.raises(AuditError, match="damaged"):
        memory.dual(2, weights)
    with pytest.raises(UsageError, match="other data or settings"):
        DualMemory(tmp_path, "other", 0, 2.0, 0.5, SecretStream(new_key(1))).dual(4, weights)


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_weights_and_without_memories(federate: Federate) -> None:
    settings = replace(DUAL, validation_queries=1)
    record = federate("whole", "fl-dp", PRIVATE, settings)
    with pytest.raises(KeyboardInterrupt):
        federate("cut", "fl-dp", PRIVATE, settings, progress=Cut2())
    kept = sorted((federate.folder / "cut").glob(FILES))
    assert len(kept) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    federate("cut", "fl-dp", PRIVATE, settings)
    whole, cut = federate.weights("whole"), federate.weights("cut")
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
    for name in ("whole", "cut"):
        assert not [path for path in (federate.folder / name).rglob("*") if "client-memory" in path.name]
    claim = PrivacyGuarantee.model_validate(record["privacy"])
    assert claim.noise == "message"
    assert claim.epsilon == privacy_spent(Sampling(1.0, 0.6, 3), 0.8, 1e-5).epsilon
    review = review_record(record)
    assert review is not None
    assert not any("single updates" in text for text in review.not_covered)
    assert review.text.startswith(f"epsilon {claim.epsilon:.2f}, but only against adversaries who cannot regenerate")
    check_run(
        claim, Mechanism.model_validate(record["privacy"]["mechanism"]), Manifest.draw(20, 2, ""), 3
    )  # update canaries test it


@pytest.mark.parametrize(("memory", "share"), [("none", 0.5), ("clgecl-zero", 1.0)])
def test_every_message_has_the_full_noise(tmp_path: Path, memory: Any, share: float) -> None:
    """Without a memory each of four clients adds half of the standard deviation."""
    privacy = replace(GROUPS, clip=1e-9, noise_multiplier=1e9)
    run, clients = federation(tmp_path, privacy, replace(DUAL, client_memory=memory))
    plan, stream = run.plan(clients), run.stream()
    found = run.worker(clients[0], Toward(), plan, stream).report(1, 4, torch.zeros(SIZE), lambda _: None).update
    torch.testing.assert_close(found, torch.from_numpy(share * stream.normal(SIZE, "noise", 1, 0)))


@pytest.mark.parametrize(
    ("mode", "privacy", "complaint"),
    [
        ("central-dp", PRIVATE, "accounting with known participation"),
        ("fl-dp", replace(PRIVATE, accounting="published"), "accounting with known participation"),
        ("fl", None, "is of private runs of one phase"),
    ],
)
def test_runs_that_cannot_be(federate: Federate, mode: str, privacy: PrivacySettings | None, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        federate("out", mode, privacy, DUAL)

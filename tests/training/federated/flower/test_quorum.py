"""Rounds that go on without some of their clients."""

import shutil
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("flwr")

import torch
from flwr.app import Message
from safetensors.torch import load_file

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.training.federated.flower.agreement import Agreement
from pfl_audit.training.federated.kept import kept_path, messages_of
from pfl_audit.training.federated.settings import PrivacySettings
from tests.training.federated.flower.local_grid import LocalGrid
from tests.training.federated.flower.parties import PRIVATE, QUICK, Parties

EVERYBODY = replace(QUICK, clients_per_round=3, rounds=1)


def dying(parties: Parties, agreement: Agreement, *nodes: int) -> LocalGrid:
    """A grid whose nodes 1000, 1001, 1002 join, and of which these answer no round."""
    grid = parties.grid(agreement)

    def drop(message: Message) -> None:
        if message.metadata.message_type == "train.round":
            grid.dead.update(nodes)

    grid.watch = drop
    return grid


@pytest.mark.slow
def test_a_round_is_the_mean_over_the_clients_that_answer(parties: Parties) -> None:
    agreement = parties.agreement(settings=EVERYBODY, quorum=2)
    with pytest.raises(AuditError, match="no answer from client 1, client 2 within"):
        parties.lead("out", agreement, dying(parties, agreement, 1001, 1002))
    assert not (parties.folder / "out/model.safetensors").exists()
    record = parties.lead("out", agreement, dying(parties, agreement, 1002))  # the same run goes on
    assert record["updates"] == {"kept": 2, "absent": 1}
    assert record["quorum"] == 2
    assert record["communication"]["messages"] == 2 * 2
    parties.corpus = shutil.copytree(parties.corpus, parties.folder / "two")
    (parties.corpus / "imdb/blue/blue_train_client_2.npy").unlink()
    parties.local("local", replace(agreement, settings=replace(EVERYBODY, clients_per_round=2)))
    parties.require_equal("out", "local")


def test_a_quorum_adds_the_whole_noise(parties: Parties) -> None:
    privacy = replace(PRIVATE, provider_rate=1e-9)  # no provider is drawn: the model moves by noise alone
    agreement = parties.agreement(privacy, settings=EVERYBODY)
    parties.lead("whole", agreement)
    parties.lead("more", some := replace(agreement, quorum=2), keep=True)
    wanted = privacy.noise_multiplier * privacy.clip / 2**0.5  # type: ignore[operator]
    for message in messages_of(kept_path(parties.folder / "more")):
        numbers = torch.cat([part.flatten() for part in load_file(message.path).values()])
        assert message.origin.noise == pytest.approx(wanted)
        assert float(numbers.std()) == pytest.approx(wanted, rel=0.02)
    record = parties.lead("two", some, dying(parties, some, 1002))
    moved = parties.moved_from_start
    assert moved("more") == pytest.approx(moved("whole") * (3 / 2) ** 0.5, rel=1e-3)
    sigma = privacy.noise_multiplier * privacy.clip / record["privacy"]["denominator"]  # type: ignore[operator]
    assert moved("two") == pytest.approx(sigma, rel=0.02)
    assert record["privacy"]["quorum"] == 2


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"secure": True, "quorum": 2}, "a secure sum needs every client"),
        ({"quorum": 4}, "a quorum of 4 was asked for, and a round has 3 clients"),
        ({"quorum": -1}, "a quorum of -1 was asked for"),
        (
            {"mode": "fl-dp", "privacy": replace(PRIVATE, sampling="clients"), "quorum": 2},
            "a quorum has the whole noise only where all clients take part",
        ),
    ],
)
def test_a_quorum_that_cannot_be(changes: dict[str, Any], complaint: str) -> None:
    privacy: PrivacySettings | None = None
    with pytest.raises(UsageError, match=complaint):
        replace(Agreement("fl", 3, "start", 0, False, EVERYBODY, privacy), **changes).check()


def test_a_run_begins_with_the_clients_that_have_joined(parties: Parties) -> None:
    agreement = parties.agreement(settings=EVERYBODY, quorum=2)
    del parties.nodes[2]
    record = parties.lead("out", agreement)
    assert record["updates"] == {"kept": 2, "absent": 1}
    assert len(record["data"]["commitments"]) == 2

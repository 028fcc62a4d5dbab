"""Secure sums: right within the stated error, and none at all where somebody is missing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import Message

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.privacy import rounding
from pfl_audit.training.federated.flower import client, engine, secure
from pfl_audit.training.federated.flower.masks import masks
from pfl_audit.training.federated.kept import kept_path, messages_of
from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.federated.settings import PrivacySettings
from tests.training.federated.flower.parties import PRIVATE, QUICK, Parties


@pytest.mark.sampled(1)
@pytest.mark.parametrize("privacy", [None, PRIVATE])
def test_a_secure_sum_is_the_sum(parties: Parties, privacy: PrivacySettings | None) -> None:
    settings = replace(QUICK, clients_per_round=3, rounds=1)
    agreement = parties.agreement(privacy, settings=settings)
    parties.lead("plain", agreement)
    record = parties.lead("secure", replace(agreement, secure=True), keep=True)
    parties.require_equal("secure", "plain", rtol=0.0, atol=2e-6)
    assert record["secure_aggregation"]
    sent = record["communication"]  # an update is masked as 64-bit numbers
    assert sent["bytes_an_update"] == 2 * sent["bytes_a_message"]
    assert sent["bytes"] == 3 * sent["messages"] * sent["bytes_a_message"] // 2
    assert record["updates"] == ({} if privacy else {"kept": 3})
    (kept,) = messages_of(kept_path(parties.folder / "secure"))  # the server sees no other message
    assert (kept.path.stem, kept.origin.clients) == ("sum", (0, 1, 2))
    assert kept.origin.noise == pytest.approx(PRIVATE.clip * 0.8 if privacy else 0.0)


def test_error_of_a_secure_sum_is_as_stated(parties: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    got: list[Any] = []

    def vector(report: Any, **named: Any) -> torch.Tensor:
        drawn = torch.cat([torch.rand(len(report.update), dtype=torch.float64) * 14 - 7, torch.ones(1)])
        sent.append(drawn.numpy())
        return drawn

    def take(*arguments: Any) -> Any:
        got.append(secure.secure_sum(*arguments))
        return got[0]

    monkeypatch.setattr(client, "secure_vector", vector)
    monkeypatch.setattr(engine, "secure_sum", take)
    settings = replace(QUICK, clients_per_round=3, rounds=1)
    parties.lead("out", parties.agreement(secure=True, settings=settings))
    error = got[0] - sum(sent)
    step = 2 * 8.0 / rounding.levels(3)
    assert np.sqrt(np.mean(error**2)) == pytest.approx(np.sqrt(3 / 6) * step, rel=0.05)
    assert np.abs(error).max() <= 3 * step


def test_masks_are_uniform_repeatable_and_all_of_the_key_counts() -> None:
    (one,) = masks(b"a" * 32, 1 << 32, [(40_000,)])
    assert np.array_equal(one, masks(b"a" * 32, 1 << 32, [(100, 400)])[0].ravel())
    assert one.min() >= 0
    assert one.max() < 1 << 32
    assert abs(one.mean() / 2**31 - 1) < 0.02
    for at in range(32):  # Flower's own generator sees 28 bits of the key
        key = bytearray(b"a" * 32)
        key[at] ^= 1
        assert not np.array_equal(one[:64], masks(bytes(key), 1 << 32, [(64,)])[0])


@pytest.mark.parametrize("participants", [2, 15, 63, 64, 1000])
def test_a_secure_sum_does_not_wrap_around(participants: int) -> None:
    assert participants * rounding.levels(participants) < 1 << 32


@pytest.mark.slow
def test_a_client_that_drops_out_stops_the_secure_round(parties: Parties) -> None:
    settings = replace(QUICK, rounds=1)
    agreement = parties.agreement(PRIVATE, secure=True, settings=settings)
    grid = parties.grid(agreement)

    def drop(message: Message) -> None:
        record = message.content.config_records.get("secaggplus_configs") if message.has_content() else None
        if record is not None and record.get("stage") == "unmask":
            grid.dead.add(1001)

    grid.watch = drop
    with pytest.raises(AuditError, match="no answer from client 1 within"):
        parties.lead("out", agreement, grid)
    assert not (parties.folder / "out/model.safetensors").exists()
    parties.lead("out", agreement)  # all are there again
    parties.lead("plain", replace(agreement, secure=False))
    parties.require_equal("out", "plain", rtol=0.0, atol=2e-6)


def test_what_does_not_fit_into_a_secure_sum_is_refused(parties: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "SIGMAS", 0.0)
    with pytest.raises(AuditError, match=r"client \d: its update is too large"):
        parties.lead("out", parties.agreement(PRIVATE, secure=True))


def test_a_secure_sum_needs_two(parties: Parties) -> None:
    with pytest.raises(UsageError, match="a sum over one client hides nothing"):
        parties.agreement(secure=True, clients=1).check()
    with pytest.raises(UsageError, match=r"in round 1 client \d is alone"):
        parties.lead("out", parties.agreement(secure=True, settings=replace(QUICK, clients_per_round=1)))


def test_a_dropped_update_is_left_out_of_a_secure_mean(parties: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    train = LocalTrainer.train

    def second_breaks(self: LocalTrainer, weights: torch.Tensor, rows: Any, *who: int) -> Any:
        update, loss = train(self, weights, rows, *who)
        return (torch.full_like(update, torch.nan), loss) if who[1] == 1 else (update, loss)

    monkeypatch.setattr(LocalTrainer, "train", second_breaks)
    agreement = parties.agreement(settings=replace(QUICK, clients_per_round=3, rounds=1))
    record = parties.lead("secure", replace(agreement, secure=True))
    assert record["updates"] == {"kept": 2, "dropped": 1}
    parties.local("local", agreement)
    parties.require_equal("secure", "local", rtol=1e-4, atol=2e-6)

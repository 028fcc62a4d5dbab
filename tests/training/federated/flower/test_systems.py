"""FL-GROUP-DP and DP-CLGECL over Flower: the models of the local engine, and parties that cannot take part."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from flwr.app import Message

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.privacy.mechanism import Mechanism
from pfl_audit.privacy.review import review_record
from pfl_audit.training.federated.settings import PrivacySettings
from pfl_audit.training.optimizers import Shampoo
from tests.training.federated.flower.parties import PRIVATE, QUICK, Parties

GROUPS = replace(PRIVATE, sampling="fixed-size", providers_per_round=2, minimum_providers=3, public_providers=None)


@pytest.mark.slow
def test_correlated_noise_ends_with_the_local_model(parties: Parties) -> None:
    """A client that starts a process for every round draws the noise of the rounds before again."""
    agreement = parties.agreement(
        replace(PRIVATE, sampling="schedule", separation=3), settings=replace(QUICK, rounds=4)
    )
    ours, local = parties.lead("flower", agreement), parties.local("local", agreement)
    parties.require_equal("flower", "local")
    assert ours["privacy"] == {**local["privacy"], "composed": None}  # clients keep ledgers
    assert len(Mechanism.model_validate(ours["privacy"]["mechanism"]).noise.strategy) == 3
    with pytest.raises(UsageError, match="grid of a secure sum is accounted for noise of a round by itself"):
        replace(agreement, secure=True).check()
    with pytest.raises(UsageError, match="noise that later rounds take back needs every client in each"):
        replace(agreement, quorum=2).check()


@pytest.mark.slow
def test_groups_and_duals_end_with_the_local_model(parties: Parties) -> None:
    seen: set[str] = set()

    def look(message: Message) -> None:
        seen.update(path.name for path in Path(parties.folder).glob("work-*/*/client-memory-*"))
        assert "dual" not in repr(message)

    agreement = parties.agreement(GROUPS, settings=replace(QUICK, client_memory="clgecl"), lora=2)
    ours, local = parties.lead("flower", agreement, parties.grid(agreement, look)), parties.local("local", agreement)
    parties.require_equal("flower", "local")
    assert ours["privacy"] == {**local["privacy"], "composed": None}  # clients keep ledgers
    assert (ours["privacy"]["noise"], ours["privacy"]["sampling"]["kind"]) == ("message", "fixed-size")
    assert len(seen) >= 2  # each in the work folder of its client
    assert not list(parties.folder.rglob("client-memory-*"))


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_documents_are_units_over_a_network_as_well(parties: Parties, secure: bool) -> None:
    settings = replace(QUICK, local_steps=None, optimizer="sgd", learning_rate=1.0)
    agreement = parties.agreement(replace(PRIVATE, unit="document"), settings=settings, secure=secure)
    ours, local = parties.lead("flower", agreement), parties.local("local", agreement)
    parties.require_equal("flower", "local", rtol=0.0, atol=1e-4)
    assert ours["privacy"]["unit"] == local["privacy"]["unit"] == "document"
    assert ours["privacy"]["mechanism"]["phases"][0]["parts"][0] == {"part": "gradient"}


@pytest.mark.slow
@pytest.mark.parametrize("privacy", [None, replace(PRIVATE, noise="message")])
def test_rounded_messages_end_with_the_local_model(parties: Parties, privacy: PrivacySettings | None) -> None:
    """Adapters whose random halves both sides draw; the model is sent as its difference from the start."""
    agreement = parties.agreement(privacy, settings=replace(QUICK, codec="nf4"), lora=2)
    starts = list[str]()

    def look(message: Message) -> None:
        if message.metadata.message_type == "train.round" and not message.metadata.reply_to_message_id:
            starts.append(str(message.content.config_records["run"]["start"]))

    ours = parties.lead("flower", agreement, parties.grid(agreement, look))
    parties.local("local", agreement)
    parties.require_equal("flower", "local")
    if privacy is not None:  # nothing differs from the mechanism; the noise of the test has a seed
        review = review_record(ours)
        assert review is not None
        assert "cannot regenerate the noise" in review.text
    assert len(set(starts)) == 1
    assert len(starts[0]) == 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("privacy", "lora", "change"),
    [
        (None, 0, {"strategy": "fedadam-reference", "server_rate": 0.01, "weighting": "data", "proximal": 1.0}),
        (None, 2, {"strategy": "fedavgm", "optimizer": "momentum", "learning_rate": 0.1, "client_fraction": 0.7}),
        (None, 0, {"optimizer": "shampoo", "freeze_embeddings": True, "learning_rate": 0.01, "local_steps": 3}),
        (PRIVATE, 2, {"strategy": "fedadam", "server_rate": 0.01, "optimizer": "adam", "proximal": 1.0}),
    ],
    ids=["fedadam", "fedavgm", "fedshampoo", "private-fedadam"],
)
def test_systems_end_with_the_local_model(
    parties: Parties,
    privacy: PrivacySettings | None,
    lora: int,
    change: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shampoo has statistics and roots at every step, so that what a client keeps decides its weights."""
    for name in ("statistics_every", "roots_every"):
        monkeypatch.setitem(Shampoo.__init__.__kwdefaults__, name, 1)
    settings = replace(QUICK, **change)
    agreement = parties.agreement(privacy, settings=settings, lora=lora)
    ours, local = parties.lead("flower", agreement), parties.local("local", agreement)
    parties.require_equal("flower", "local")
    assert ours["communication"] == local["communication"]
    if privacy:
        assert ours["privacy"] == {**local["privacy"], "composed": None}  # clients keep ledgers
        assert len(Mechanism.model_validate(ours["privacy"]["mechanism"]).sentences()) == 2
    assert not list(parties.folder.rglob("optimizer-*"))


def test_a_difference_from_another_start_is_refused(parties: Parties) -> None:
    agreement = parties.agreement(settings=replace(QUICK, codec="nf4"))

    def another(message: Message) -> None:
        if message.metadata.message_type == "train.round" and not message.metadata.reply_to_message_id:
            message.content.config_records["run"]["start"] = "0" * 64

    with pytest.raises(AuditError, match="the model is sent as a difference from another start"):
        parties.lead("out", agreement, parties.grid(agreement, another))


def test_a_client_below_the_minimum_refuses(parties: Parties) -> None:
    agreement = parties.agreement(replace(GROUPS, minimum_providers=100))
    with pytest.raises(AuditError, match="it has fewer providers than the agreed minimum"):
        parties.lead("out", agreement)


def test_a_secure_sum_has_no_full_noise_on_each_message(parties: Parties) -> None:
    agreement = parties.agreement(PRIVATE, settings=replace(QUICK, client_memory="clgecl"), secure=True)
    with pytest.raises(UsageError, match="a secure sum hides messages, each of which has all of the noise"):
        agreement.check()

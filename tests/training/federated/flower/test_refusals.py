"""Parties that are not as agreed, and a server that asks for more."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import Message

from pfl_audit.cli.main import run
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError
from pfl_audit.training.federated.codecs import FLOAT32
from pfl_audit.training.federated.flower.agreement import Agreement
from pfl_audit.training.federated.flower.client_state import ClientState
from pfl_audit.training.federated.flower.messenger import Messenger
from pfl_audit.training.federated.flower.refusal import RefusalError
from pfl_audit.training.federated.flower.round_config import ROUND, RoundConfig
from pfl_audit.training.federated.flower.wire import read_round, round_content
from pfl_audit.training.federated.settings import Mode, PrivacySettings
from pfl_audit.training.pretraining import FOLDER, Pretraining
from tests.training.federated.flower.parties import PRIVATE, QUICK, Parties

Make = Callable[[int], Path]


def _wrong(change: Mapping[str, Any], node: int = 1) -> Callable[[Parties, Make], None]:
    return lambda parties, make: parties.nodes[node].update(change)


def _other_start(parties: Parties, make: Make) -> None:
    parties.nodes[1]["start"] = str(make(1))


def _no_documents(parties: Parties, make: Make) -> None:
    parties.nodes[1]["data"] = parties.nodes[2]["data"]


def _absent(parties: Parties, make: Make) -> None:
    del parties.nodes[2]


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_other_start, "client 1: its start is another checkpoint"),
        (_wrong({"partition-id": None}), "client None: it has no number"),
        (_wrong({"partition-id": 7}), "client 7: there are clients 0 to 2 only"),
        (_wrong({"work": ""}), "client 1: its SuperNode was started without work"),
        (_wrong({"data": "/nowhere"}), "client 1: it stopped with UsageError"),
        (_no_documents, "client 1: its data hold no training document of its own"),
        (_absent, "client 2 has not joined within"),
    ],
)
def test_parties_that_are_not_as_agreed(
    parties: Parties, make_checkpoint: Make, spoil: Callable[[Parties, Make], None], complaint: str
) -> None:
    spoil(parties, make_checkpoint)
    with pytest.raises(AuditError, match=complaint) as caught:
        parties.lead("out", parties.agreement())
    assert caught.value.remedy
    assert "nowhere" not in str(caught.value)
    assert str(parties.folder) not in str(caught.value)


def test_two_nodes_with_one_number(parties: Parties) -> None:
    parties.nodes[2] = dict(parties.nodes[1])
    with pytest.raises(AuditError, match="two nodes say that they are client 1"):
        parties.lead("out", parties.agreement())


def test_a_provider_with_two_clients_is_found_without_its_name(parties: Parties) -> None:
    agreement = parties.agreement(settings=replace(QUICK, rounds=1))
    for node in parties.nodes:
        node["roll"] = "between the clients"
    parties.lead("apart", agreement)
    data = Path(parties.nodes[2]["data"])
    names = json.loads((parties.corpus / "doc2provider.json").read_text())
    taken = next(q.document.provider for q in open_corpus(Path(parties.nodes[0]["data"]), "blue").queries)
    own = {q.document.provider for q in open_corpus(data, "blue").queries}
    renamed = {page: f" {taken.upper()}" if name == min(own) else name for page, name in names.items()}
    (data / "doc2provider.json").write_text(json.dumps(renamed))
    with pytest.raises(AuditError, match="client 0 and client 2 have the same provider") as caught:
        parties.lead("shared", agreement)
    assert taken not in str(caught.value)
    del parties.nodes[1]["roll"]
    with pytest.raises(AuditError, match="client 1 has no roll, and others have"):
        parties.lead("odd", agreement)


@pytest.mark.slow
def test_a_client_does_not_answer(parties: Parties) -> None:
    agreement = parties.agreement(PRIVATE)
    grid = parties.grid(agreement)

    def drop(message: Message) -> None:
        if message.metadata.message_type == "train.round":
            grid.dead.add(1002)

    grid.watch = drop
    with pytest.raises(AuditError, match="no answer from client 2 within"):
        parties.lead("out", agreement, grid)


def test_noise_with_a_seed_that_the_server_knows_is_refused(parties: Parties) -> None:
    grid = parties.grid(agreement := parties.agreement(PRIVATE))
    del grid.contexts[1001].node_config["repeatable-noise"]
    with pytest.raises(AuditError, match="client 1: the run's noise has a seed that its server knows"):
        parties.lead("out", agreement, grid)


def test_a_server_that_asks_for_more_than_agreed_is_refused(parties: Parties) -> None:
    """The noise of a round is drawn once: the same round over another model would undo it."""
    agreement = parties.agreement(replace(PRIVATE, noise_seed=None))
    seen: list[Message] = []

    def keep(message: Message) -> None:
        if message.metadata.message_type == "train.round" and not message.metadata.reply_to_message_id:
            seen.append(message)
        if len(seen) > 3:  # the second round begins
            raise KeyboardInterrupt

    grid = parties.grid(agreement, keep)
    with pytest.raises(KeyboardInterrupt):
        parties.lead("out", agreement, grid)
    grid.watch = lambda message: None
    order, weights = read_round(seen[0].content, FLOAT32)

    def ask(order: Any, weights: torch.Tensor) -> Any:
        (answer,) = Messenger(grid, 1).ask([Message(round_content(order, weights, FLOAT32), 1000, ROUND)])
        return answer.content.array_records["vector"]["vector"].numpy()

    assert np.array_equal(ask(order, weights), ask(order, weights))
    for asked, complaint in (
        ((order, weights + 1), "asked for again over another model"),
        ((replace(order, participants=1), weights), "1 participants are stated for round 1, and 3 clients were agreed"),
        ((replace(order, participants=10**12), weights), "1000000000000 participants are stated for round 1, and 3"),
        ((replace(order, participants=0), weights), "0 participants are stated"),
        ((replace(order, quorum=1), weights), "a quorum of 1 is stated for round 1, and 0 was agreed"),
        ((replace(order, sigma=0.1), weights), "states another noise"),
        ((replace(order, number=3), weights), "2 rounds were agreed, and round 3 is asked for"),
        ((replace(order, run="../../elsewhere"), weights), "the run has no proper id"),
        ((replace(order, run="0" * 32), weights), "it takes no part in this run"),
    ):
        with pytest.raises(AuditError, match=complaint):
            ask(*asked)


_GROUPS = replace(
    PRIVATE, sampling="fixed-size", providers_per_round=1, minimum_providers=1, public_providers=None, denominator=None
)
_CLIENTS = replace(PRIVATE, sampling="clients")
_TWO = replace(QUICK, clients_per_round=2)
_OF_ALL = replace(QUICK, clients_per_round=3)


@pytest.mark.parametrize(
    ("privacy", "changes", "phase", "agreed"),
    [
        (None, {"settings": _TWO}, "", {2}),
        (None, {"settings": _TWO, "quorum": 1}, "", {2}),
        (None, {"settings": replace(QUICK, client_fraction=0.7)}, "", {2}),
        (_GROUPS, {"settings": _TWO}, "", {2}),  # 3 would be noise for 2 of 3 shares
        (PRIVATE, {}, "", {3}),
        (PRIVATE, {"quorum": 2}, "", {3}),
        (_CLIENTS, {}, "", {1, 2, 3}),
        (None, {"settings": _OF_ALL, "pretraining": Pretraining("tm", pretrain_client_fraction=0.4)}, FOLDER, {1}),
        (None, {"settings": _OF_ALL, "pretraining": Pretraining("tm", pretrain_client_fraction=0.4)}, "", {3}),
    ],
)
def test_participants_are_those_of_the_sampling(
    tmp_path: Path, privacy: PrivacySettings | None, changes: dict[str, Any], phase: str, agreed: set[int]
) -> None:
    """Each participant adds its share of the noise: a larger number than can be drawn would lessen it."""
    mode: Mode = "fl-dp" if privacy else "fl"
    agreement = replace(Agreement(mode, 3, "start", 0, False, QUICK, privacy), **changes)
    agreement.check()
    state = ClientState(tmp_path, run := "0" * 32)
    state.begin({"settings": agreement.digest, "data": "", "sigma": 0.8})
    for stated in range(5):
        order = RoundConfig(run, 1, stated, 0.8, agreement.quorum, phase)
        if stated in agreed:
            state.permit(order, agreement)
        else:
            with pytest.raises(RefusalError, match=f"{stated} participants are stated for round 1"):
                state.permit(order, agreement)


def interrupted(parties: Parties) -> None:
    """A private run into "out" that ended because a node did not answer."""
    agreement = parties.agreement(PRIVATE)
    grid = parties.grid(agreement)
    grid.dead.add(1002)
    with pytest.raises(AuditError, match="no answer from a node"):
        parties.lead("out", agreement, grid)


def test_other_settings_do_not_continue_a_run(parties: Parties) -> None:
    interrupted(parties)
    with pytest.raises(AuditError, match=r"client \d: its data, its start or the app's settings are not as when"):
        parties.lead("out", parties.agreement(replace(PRIVATE, clip=5.0)))


def test_a_page_that_changes_its_provider_does_not_continue_a_run(parties: Parties) -> None:
    """The same round would have the same noise, and another sum."""
    interrupted(parties)
    table = Path(parties.nodes[0]["data"]) / "doc2provider.json"
    held = {page.file: page.provider for page in open_corpus(table.parent).documents}
    one, other = next((a, b) for a in held for b in held if held[a] != held[b])
    table.write_text(json.dumps(json.loads(table.read_text()) | {one: held[other], other: held[one]}))
    with pytest.raises(AuditError, match="client 0: its data, its start or the app's settings are not as when"):
        parties.lead("out", parties.agreement(PRIVATE))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--mode", "fl", "--app", "new"], "--engine flower needs --from"),
        (["--mode", "fl", "--from", "START"], "--engine flower needs --app"),
        (["--mode", "central", "--from", "START", "--app", "new"], "central training has no federation"),
        (["--mode", "central-dp", "--from", "START", "--app", "new"], "mode central-dp has no clients"),
        (["--mode", "fl", "--from", "START", "--app", "new", "--dry-run"], "--dry-run plans what is trained here"),
        (["--mode", "fl", "--from", "START", "--app", "START"], "is not empty"),
        (["--mode", "fl", "--from", "START", "--app", "new", "--clients", "0"], "needs a client at least"),
        (["--mode", "fl-dp", "--clip", "0", "--from", "START", "--app", "new"], "clip must be greater than 0"),
        (["--mode", "fl", "--from", "START", "--app", "new", "--optimizer", "zip"], "there is no optimiser 'zip'"),
        (["--mode", "fl", "--from", "START", "--app", "new", "--strategy", "zip"], "there is no server strategy 'zip'"),
        (["--mode", "fl", "--from", "START", "--app", "new", "--codec", "zip"], "there is no message codec 'zip'"),
        (
            ["--mode", "fl", "--from", "START", "--app", "new", "--pretrain", "tm", "--pretrain-strategy", "zip"],
            "there is no server strategy 'zip'",
        ),
        (
            ["--mode", "fl", "--from", "START", "--app", "new", "--clients-per-round", "3"],
            "3 clients a round were asked for, and there are 2",
        ),
        (
            [
                *("--mode", "fl-dp", "--from", "START", "--app", "new", "--public-providers", "9"),
                *("--epsilon", "1e-9", "--rounds", "100000"),
            ],
            "epsilon 1e-09 cannot be reached",
        ),
    ],
)
def test_apps_that_cannot_be(
    make_checkpoint: Make, tmp_path: Path, arguments: list[str], complaint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [word.replace("START", str(make_checkpoint(0))).replace("new", str(tmp_path / "new")) for word in arguments]
    assert run(["train", "--engine", "flower", "--out", str(tmp_path / "out"), *words]) == 4
    assert complaint in capfd.readouterr().err
    assert not (tmp_path / "new").exists()

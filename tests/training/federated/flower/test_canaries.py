"""Document canaries of a federation: each client draws its own from the salt, and trains as the local engine does."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

import torch
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.config import flatten_dict

from pfl_audit.cli.main import run
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.vt5.training import TrainableVt5
from pfl_audit.privacy.canary_coins import RECORD as CANARIES_FILE
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.ledger import Ledger, default_path
from pfl_audit.progress import Silent
from pfl_audit.training import canaries
from pfl_audit.training.canaries import CanarySettings
from pfl_audit.training.federated.codecs import FLOAT32
from pfl_audit.training.federated.flower.agreement import Agreement
from pfl_audit.training.federated.flower.app_folder import write_app
from pfl_audit.training.federated.flower.client_state import FILE as JOURNAL
from pfl_audit.training.federated.flower.config import ServerConfig
from pfl_audit.training.federated.flower.messenger import Messenger
from pfl_audit.training.federated.flower.round_config import CANARIES, FINISH, ROUND, RUN, RoundConfig, question
from pfl_audit.training.federated.flower.server_app import RUN_FILE, lead_federation
from pfl_audit.training.federated.flower.wire import round_content
from pfl_audit.training.federated.kept import kept_path, messages_of
from pfl_audit.training.federated.settings import PrivacySettings
from pfl_audit.training.pretraining import Pretraining
from tests.training.federated.flower.local_grid import LocalGrid
from tests.training.federated.flower.parties import PRIVATE, QUICK, Parties

ASKED = CanarySettings(12, 12, "verifier 7")
OWN = 4
"""Canaries that a client of three may have."""
GROUPS = replace(
    PRIVATE, sampling="fixed-size", providers_per_round=2, minimum_providers=4 + OWN, public_providers=None
)
DUAL = replace(QUICK, client_memory="clgecl")


@pytest.fixture
def coins(monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """Coins of every run of a test: those of both engines are the same."""
    manifest = Manifest.draw(ASKED.canaries, ASKED.guesses, ASKED.nonce)
    monkeypatch.setattr(Manifest, "draw", lambda *_, **__: manifest)
    return manifest


@pytest.fixture
def planted(parties: Parties) -> Parties:
    """Clients whose nodes allow as many canaries as there may be."""
    for node in parties.nodes:
        node["audit-canaries-cap"] = OWN
    return parties


def journals(parties: Parties) -> list[dict[str, Any]]:
    return [json.loads(next(Path(node["work"]).glob(f"*/{JOURNAL}")).read_text()) for node in parties.nodes]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("privacy", "changes"),
    [
        (None, {}),
        (None, {"pretraining": Pretraining("tm", pretrain_rounds=1)}),
        (PRIVATE, {"lora": 2}),
        (GROUPS, {"settings": replace(QUICK, clients_per_round=2)}),
        (PRIVATE, {"settings": DUAL}),
    ],
    ids=["fl", "pretrained", "providers", "groups", "dual"],
)
def test_both_engines_end_with_the_same_model(
    planted: Parties, coins: Manifest, privacy: PrivacySettings | None, changes: dict[str, Any]
) -> None:
    agreement = planted.agreement(privacy, canaries=ASKED, **changes)
    ours, local = planted.lead("flower", agreement), planted.local("local", agreement)
    planted.require_equal("flower", "local")
    stated = local["privacy"] if privacy is None else {**local["privacy"], "composed": None}  # clients keep ledgers
    assert ours["privacy"] == stated
    assert ours["canaries"] == local["canaries"] == coins.public()
    names = [{path.name for path in (planted.folder / name).iterdir()} for name in ("flower", "local")]
    assert names[0] == names[1]
    assert CANARIES_FILE in names[0]
    if privacy is not None:
        counted = [Ledger(default_path(Path(node["data"]))).spent().providers for node in planted.nodes]
        assert sum(counted) == Ledger(planted.folder / "local.ledger.json").spent().providers
        assert sum(counted) == 3 * 4 + (ASKED.canaries if privacy is GROUPS else int(coins.coins.sum()))


@pytest.mark.slow
def test_secure_sums_and_kept_messages_have_canaries(planted: Parties, coins: Manifest) -> None:
    agreement = planted.agreement(PRIVATE, canaries=ASKED)
    planted.lead("plain", agreement, keep=True)
    assert len(list(messages_of(kept_path(planted.folder / "plain")))) == 2 * 3
    planted.lead("secure", replace(agreement, secure=True))
    planted.require_equal("secure", "plain", rtol=0.0, atol=1e-5)
    planted.lead("without", planted.agreement(PRIVATE))
    with pytest.raises(AssertionError):
        planted.require_equal("without", "plain", rtol=0.0, atol=1e-5)


def test_a_client_is_sent_its_own_coins_and_nothing_else(
    planted: Parties, coins: Manifest, capfd: pytest.CaptureFixture[str]
) -> None:
    before = [sorted(Path(node["data"]).rglob("*")) for node in planted.nodes]
    said: list[Message] = []
    drawn: set[Path] = set()
    lines: list[str] = []

    def watch(message: Message) -> None:
        said.append(message)
        drawn.update(planted.folder.glob(f"work-*/*/{canaries.PAGES}/*.jpg"))
        if message.metadata.message_type != FINISH:
            public = json.loads((planted.folder / "out" / CANARIES_FILE).read_text())
            assert public == coins.public()  # before the first message, and nothing more until the last round

    class Heard(Silent):
        def say(self, text: str) -> None:
            lines.append(text)

    agreement = planted.agreement(PRIVATE, canaries=ASKED)
    place = ServerConfig(str(planted.start), str(planted.folder / "out"), timeout=0.5, wait=0.0)
    lead_federation(planted.grid(agreement, watch), agreement, place, Heard())
    sent = {m.metadata.dst_node_id: m for m in said if m.metadata.message_type == CANARIES and not _answers(m)}
    assert sorted(sent) == [1000, 1001, 1002]
    for client, message in enumerate(sent[node] for node in sorted(sent)):
        values = dict(message.content.config_records[RUN])
        assert values.pop(RUN)
        numbers = [at for at in range(client, ASKED.canaries, 3) if coins.coins[at]]
        assert values == {"salt": coins.salt, "commitment": coins.commitment, "numbers": numbers}
        assert journals(planted)[client]["canaries"] == values
    rest = [m for m in said if m.has_content() and m not in sent.values()]
    assert coins.salt not in repr([dict(m.content.config_records) for m in rest])
    assert lines[0] == f"commitment of the canaries: {coins.commitment}"
    everything = "".join((*lines, *capfd.readouterr()))
    assert coins.salt not in everything
    assert coins.bits not in everything.replace(coins.commitment, "")
    assert len(drawn) == coins.coins.sum()  # no page is sent: clients draw them, and delete them at the end
    assert not list(planted.folder.glob(f"work-*/*/{canaries.PAGES}"))
    assert before == [sorted(Path(node["data"]).rglob("*")) for node in planted.nodes]
    assert json.loads((planted.folder / "out" / CANARIES_FILE).read_text()) == coins.revealed()


def _answers(message: Message) -> bool:
    return bool(message.metadata.reply_to_message_id)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cap", [None, 0, OWN - 1])
def test_a_client_takes_no_more_canaries_than_its_node_allows(parties: Parties, cap: int | None) -> None:
    for node in parties.nodes:
        node["audit-canaries-cap"] = OWN
    parties.nodes[1] |= {"audit-canaries-cap": cap} if cap is not None else {}
    if cap is None:
        del parties.nodes[1]["audit-canaries-cap"]
    with pytest.raises(AuditError, match="client 1: the run may plant 4 canaries") as caught:
        parties.lead("out", parties.agreement(PRIVATE, canaries=ASKED))
    assert f"its audit-canaries-cap is {cap or 0}" in caught.value.problem
    assert "audit-canaries-cap=4 in --node-config" in str(caught.value.remedy)
    assert not Ledger(default_path(Path(parties.nodes[1]["data"]))).path.exists()
    commitment = json.loads((parties.folder / "out" / CANARIES_FILE).read_text())["commitment"]
    parties.nodes[1]["audit-canaries-cap"] = OWN
    record = parties.lead("out", parties.agreement(PRIVATE, canaries=ASKED))
    assert record["canaries"]["commitment"] == commitment  # clients that had joined keep their parts of these coins


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cap", ["4", -1, True, 4.0])
def test_a_cap_that_is_no_number_is_refused(parties: Parties, cap: object) -> None:
    parties.nodes[1]["audit-canaries-cap"] = cap
    with pytest.raises(AuditError, match="client 1: its audit-canaries-cap is no number from 0"):
        parties.lead("out", parties.agreement())


@pytest.mark.slow
def test_simulated_nodes_need_no_cap_and_a_model_that_points_has_words_of_the_page(
    parties: Parties, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    coins = Manifest.draw(ASKED.canaries, ASKED.guesses, ASKED.nonce, pointed=True)
    monkeypatch.setattr(Manifest, "draw", lambda *_, **__: coins)
    monkeypatch.setattr(TrainableVt5, "points", True)  # as a LayoutLM
    agreement = parties.agreement(canaries=ASKED)
    paths = {"data": str(parties.corpus), "start": str(parties.start), "work": str(parties.folder / "work")}
    config = flatten_dict({**agreement.to_config(), "client": paths})
    parties.lead("flower", agreement, LocalGrid([{"partition-id": number} for number in range(3)], config))
    parties.local("local", agreement)
    parties.require_equal("flower", "local")
    known = ["--from", str(parties.start), "--nonce", ASKED.nonce, "--commitment", coins.commitment]
    assert run(["verify", str(parties.folder / "flower"), *known, "--json"]) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["coins"]["status"] == "verified"
    assert "of 12 guesses are correct" in checks["canaries"]["text"]


def joined(parties: Parties, agreement: Agreement) -> LocalGrid:
    """A grid whose clients have joined a run and were sent nothing more."""

    def cut(message: Message) -> None:
        if message.metadata.message_type == CANARIES:
            raise KeyboardInterrupt

    grid = parties.grid(agreement, cut)
    with pytest.raises(KeyboardInterrupt):
        parties.lead("out", agreement, grid)
    grid.watch = lambda message: None
    return grid


def send(parties: Parties, grid: LocalGrid, values: Mapping[str, Any], client: int = 1) -> None:
    run = (parties.folder / "out" / RUN_FILE).read_text()
    content = RecordDict({RUN: ConfigRecord({"run": run, **values})})
    list(Messenger(grid, 1).ask([Message(content, 1000 + client, CANARIES)]))


GOOD: dict[str, Any] = {"salt": "ab" * 32, "commitment": "cd" * 32, "numbers": [1, 4]}
LIST = "the numbers of its canaries are no list of integers"
SALT = "the salt of the canaries is not 64 hexadecimal digits"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"numbers": [1, 4, 7, 10, 1]}, "5 canaries are sent, and at most 4 of 12 can be its own"),
        ({"numbers": list(range(100_000))}, "100000 canaries are sent"),
        ({"numbers": [1, 13]}, "a canary has a number that was not agreed"),
        ({"numbers": [-2]}, "a canary has a number that was not agreed"),
        ({"numbers": [2**62]}, "a canary has a number that was not agreed"),
        ({"numbers": [4, 4]}, "a canary is sent twice"),
        ({"numbers": [1, 3]}, "a canary of another client is sent"),
        ({"numbers": 4}, LIST),
        ({"numbers": "14"}, LIST),
        ({"numbers": [1.0, 4.0]}, LIST),
        ({"numbers": ["1", "4"]}, LIST),
        ({"numbers": [True]}, LIST),
        ({"salt": "ab" * 33}, SALT),
        ({"salt": "AB" * 32}, SALT),
        ({"salt": "ab" * 31 + "a\n"}, SALT),
        ({"salt": "ab" * 1_000_000}, SALT),
        ({"salt": b"ab" * 32}, SALT),
        ({"salt": 7}, SALT),
        ({"commitment": ""}, "the commitment of the canaries is not 64"),
        ({"run": "0" * 32}, "it takes no part in this run"),
        ({"run": "../../elsewhere"}, "the run has no proper id"),
    ],
)
def test_a_hostile_part_is_refused_before_anything_is_drawn(
    planted: Parties, change: dict[str, Any], complaint: str
) -> None:
    grid = joined(planted, planted.agreement(PRIVATE, canaries=ASKED))
    with pytest.raises(AuditError, match=complaint) as caught:
        send(planted, grid, GOOD | change)
    assert len(caught.value.problem) < 200
    assert "canaries" not in journals(planted)[1]
    assert not list(planted.folder.glob(f"work-*/*/{canaries.PAGES}"))
    assert not Ledger(default_path(Path(planted.nodes[1]["data"]))).path.exists()  # it reserves with its canaries


def test_a_part_is_kept_for_the_whole_run(planted: Parties) -> None:
    grid = joined(planted, agreement := planted.agreement(PRIVATE, canaries=ASKED))
    send(planted, grid, GOOD)
    send(planted, grid, GOOD | {"numbers": [4, 1]})  # the same ones
    for change in ({"numbers": [1]}, {"salt": "ba" * 32}):
        with pytest.raises(AuditError, match="client 1: other canaries are sent than it has taken"):
            send(planted, grid, GOOD | change)
    held = Ledger(default_path(Path(planted.nodes[1]["data"]))).spent()
    assert held.providers == 4 + 2
    planted.nodes[1]["audit-canaries-cap"] = 0
    with pytest.raises(AuditError, match="client 1: the run may plant 4 canaries"):
        send(planted, planted.grid(agreement), GOOD)


@pytest.mark.slow
def test_a_client_of_pairs_takes_one_of_each(planted: Parties) -> None:
    agreement = planted.agreement(GROUPS, canaries=ASKED, settings=replace(QUICK, clients_per_round=2))
    grid = joined(planted, agreement)
    for numbers, complaint in (
        ([1, 4, 7], "3 canaries are sent, and 4 of 12 can be its own"),
        ([1, 13, 4, 7], "a canary is sent twice"),
        ([1, 4, 7, 24 + 10], "a canary has a number that was not agreed"),
    ):
        with pytest.raises(AuditError, match=complaint):
            send(planted, grid, GOOD | {"numbers": numbers})
    send(planted, grid, GOOD | {"numbers": [22, 1, 4, 19]})
    assert journals(planted)[1]["canaries"]["numbers"] == [1, 4, 19, 22]


def test_canaries_that_were_not_agreed_or_not_sent_are_refused(planted: Parties) -> None:
    unasked = Message(question({"run": "0" * 32, **GOOD}), 1001, CANARIES)
    with pytest.raises(AuditError, match="client 1: canaries are sent that were not agreed"):
        list(Messenger(planted.grid(planted.agreement(PRIVATE)), 1).ask([unasked]))
    grid = joined(planted, planted.agreement(PRIVATE, canaries=ASKED))
    order = RoundConfig((planted.folder / "out" / RUN_FILE).read_text(), 1, 3, 0.8)
    round_without = Message(round_content(order, torch.zeros(1), FLOAT32), 1001, ROUND)
    with pytest.raises(AuditError, match="client 1: canaries were agreed, and it was sent none"):
        list(Messenger(grid, 1).ask([round_without]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CANARIES, ROUND])
def test_a_run_that_was_cut_goes_on_with_its_coins(
    planted: Parties, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreement = planted.agreement(PRIVATE, canaries=ASKED)
    sent = 0

    def cut(message: Message) -> None:
        nonlocal sent
        sent += message.metadata.message_type == kind
        if sent > (7 if kind == ROUND else 2):  # in the second round, or when two clients have their canaries
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        planted.lead("cut", agreement, planted.grid(agreement, cut))
    held = json.loads((planted.folder / "cut" / canaries.COINS).read_text())
    manifest = Manifest.check(held, json.loads((planted.folder / "cut" / CANARIES_FILE).read_text())["commitment"])
    with monkeypatch.context() as patch:
        patch.delattr(Manifest, "draw")
        assert planted.lead("cut", agreement)["canaries"] == manifest.public()
    assert json.loads((planted.folder / "cut" / CANARIES_FILE).read_text()) == manifest.revealed()
    monkeypatch.setattr(Manifest, "draw", lambda *_, **__: manifest)
    planted.lead("whole", agreement)
    planted.require_equal("cut", "whole", rtol=0.0, atol=0.0)
    assert not (planted.folder / "cut" / canaries.COINS).exists()


def test_a_quorum_goes_on_without_a_client_that_refuses_its_canaries(planted: Parties, coins: Manifest) -> None:
    agreement = planted.agreement(canaries=ASKED, quorum=2, settings=replace(QUICK, clients_per_round=3))
    grid = planted.grid(agreement)

    def restart(message: Message) -> None:
        """The SuperNode of client 2 starts again after its first round, and allows no canaries."""
        if message.metadata.message_type == ROUND and _answers(message) and message.metadata.src_node_id == 1002:
            context = grid.contexts.pop(1002)
            context.node_config["audit-canaries-cap"] = 0
            grid.contexts[1003] = context

    grid.watch = restart
    record = planted.lead("out", agreement, grid)
    assert record["updates"] == {"kept": 5, "absent": 1}
    assert record["canaries"] == coins.public()


def test_what_is_agreed_survives_the_way_through_toml(parties: Parties, tmp_path: Path) -> None:
    agreement = parties.agreement(canaries=ASKED)
    write_app(tmp_path, agreement, ServerConfig("start", "out"))
    table = tomllib.loads((tmp_path / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    config = flatten_dict(table["config"])
    assert Agreement.from_config(config) == agreement
    assert agreement.digest != parties.agreement().digest
    for change in ({"canaries": 1}, {"canaries": "12"}, {"canaries": 12.5}, {"guesses": 13}, {"nonce": 7}):
        (name,) = change
        with pytest.raises(UsageError):
            Agreement.from_config({**config, f"canaries.{name}": change[name]})
    with pytest.raises(UsageError, match="60,000 canaries are more than the 50,000"):
        parties.agreement(GROUPS, canaries=CanarySettings(60_000, 1)).check()


def test_the_command_writes_the_canaries_into_the_app(parties: Parties, tmp_path: Path) -> None:
    app = tmp_path / "app"
    words = ["--mode", "fl", "--from", str(parties.start), "--out", str(tmp_path / "out"), "--app", str(app)]
    asked = ["--audit-canaries", "12", "--canary-guesses", "12", "--canary-nonce", "verifier 7"]
    assert run(["train", "--engine", "flower", *words, *asked]) == 0
    table = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    assert table["config"]["canaries"] == ASKED.to_dict()
    assert "salt" not in (app / "pyproject.toml").read_text()


def test_a_model_that_cannot_be_taught_a_value_has_no_app(
    parties: Parties, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TrainableVt5, "can_write", lambda *_: False)
    words = ["--mode", "fl", "--from", str(parties.start), "--out", str(tmp_path / "out"), "--app", str(tmp_path / "a")]
    assert run(["train", "--engine", "flower", *words, "--audit-canaries", "12"]) == 4
    assert "canaries need a model that answers questions" in capfd.readouterr().err
    assert not (tmp_path / "a").exists()

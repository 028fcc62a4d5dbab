"""The Flower engine against the local one. Nothing leaves this process."""

import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

import torch
from flwr.app import Message
from flwr.common.config import flatten_dict
from safetensors.torch import load_file

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import UsageError
from pfl_audit.models.page_store import PAGES_FILE
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.keys import EMBEDDING
from pfl_audit.training.federated.flower import opened
from pfl_audit.training.federated.flower.agreement import Agreement
from pfl_audit.training.federated.flower.app_folder import write_app
from pfl_audit.training.federated.flower.client_state import FILE as JOURNAL
from pfl_audit.training.federated.flower.config import ServerConfig
from pfl_audit.training.federated.flower.server_app import RUN_FILE
from pfl_audit.training.federated.kept import kept_path, messages_of
from pfl_audit.training.federated.run import KEY_FILE
from pfl_audit.training.federated.settings import PrivacySettings
from pfl_audit.training.records import RECORD, commitment, private_path
from pfl_audit.training.start import open_trainable
from tests.training.federated.flower.parties import PRIVATE, Parties


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("privacy", "lora"), [(None, 0), (PRIVATE, 0), (replace(PRIVATE, sampling="clients", client_rate=0.5), 2)]
)
def test_both_engines_end_with_the_same_model(parties: Parties, privacy: PrivacySettings | None, lora: int) -> None:
    agreement = parties.agreement(privacy, lora=lora)
    ours, local = parties.lead("flower", agreement), parties.local("local", agreement)
    parties.require_equal("flower", "local")
    stated = local["privacy"] if privacy is None else {**local["privacy"], "composed": None}  # clients keep ledgers
    assert ours["privacy"] == stated
    assert ours["communication"] == local["communication"]
    assert [entry["round"] for entry in ours["history"]] == [entry["round"] for entry in local["history"]]
    assert (parties.folder / "flower/communication.csv").read_text() == (
        parties.folder / "local/communication.csv"
    ).read_text()
    kept = {path.name for path in (parties.folder / "flower").iterdir()}
    assert kept == {path.name for path in (parties.folder / "local").iterdir()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("privacy", [None, PRIVATE])
def test_both_engines_keep_the_same_messages(parties: Parties, privacy: PrivacySettings | None) -> None:
    agreement = parties.agreement(privacy)
    parties.lead("flower", agreement, keep=True)
    parties.local("local", agreement, keep=True)
    ours, local = (list(messages_of(kept_path(parties.folder / name))) for name in ("flower", "local"))
    assert [(one.round, one.origin.clients, one.origin.noise) for one in ours] == [
        (one.round, one.origin.clients, one.origin.noise) for one in local
    ]
    assert {one.origin.queries for one in ours} == {None}  # a server does not know them
    for one, other in zip(ours, local, strict=True):
        wanted = load_file(other.path)
        for name, tensor in load_file(one.path).items():
            torch.testing.assert_close(tensor, wanted[name], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_frozen_embeddings_are_sent_by_neither_engine(parties: Parties) -> None:
    agreement = parties.agreement()
    agreement = replace(agreement, settings=replace(agreement.settings, freeze_embeddings=True))
    ours, local = parties.lead("flower", agreement), parties.local("local", agreement)
    parties.require_equal("flower", "local")
    assert ours["communication"] == local["communication"]
    start = load_vt5(parties.start).network.state_dict()[EMBEDDING]
    assert torch.equal(parties.weights("flower")[EMBEDDING], start)


def test_a_private_client_sends_its_noisy_sum_and_nothing_else(parties: Parties) -> None:
    said: list[Message] = []
    grid = parties.grid(agreement := parties.agreement(PRIVATE), lambda m: said.append(m) if m.has_content() else None)
    parties.lead("out", agreement, grid)
    answers = [m for m in said if m.metadata.reply_to_message_id]
    joined = [dict(m.content.config_records["run"]) for m in answers if m.metadata.message_type == "query.join"]
    commitments = [said.pop("commitment") for said in joined]
    assert joined == [{"number": number, "marks": []} for number in range(3)]
    reports = [m for m in answers if m.metadata.message_type == "train.round"]
    assert len(reports) == 2 * 3
    for report in reports:
        assert list(report.content.array_records["vector"]) == ["vector"]
        assert not dict(report.content.config_records["report"])
    names = set(json.loads((parties.corpus / "doc2provider.json").read_text()).values())
    everything = repr([(dict(m.content.config_records), m.metadata) for m in said])
    assert not any(name in everything for name in names)
    for node in parties.nodes:
        (folder,) = Path(node["work"]).iterdir()
        assert not (folder / KEY_FILE).exists()
        assert not (folder / PAGES_FILE).exists()
        journal = json.loads((folder / JOURNAL).read_text())
        assert journal["finished"]
        for entry in journal["rounds"].values():
            assert sum(entry["updates"].values()) == 0 or 0 < entry["clipped_norm"] <= entry["norm"]
        salt, digest = journal["commitment"]["salt"], journal["facts"]["data"]
        assert commitment(salt, digest) == commitments[node["partition-id"]]
        assert salt not in everything
        assert digest not in everything
    released = json.loads((parties.folder / "out" / RECORD).read_text())
    assert released["data"] == {"commitments": commitments, "before": []}
    assert not {"history", "updates"} & set(released)
    assert private_path(parties.folder / "out").stat().st_mode & 0o777 == 0o600


def test_own_keys_are_secret_and_differ(parties: Parties) -> None:
    keys: dict[str, bytes] = {}

    def look(message: Message) -> None:
        for path in parties.folder.glob(f"work-*/*/{KEY_FILE}"):
            assert path.stat().st_mode & 0o077 == 0
            keys[str(path)] = path.read_bytes()

    agreement = parties.agreement(replace(PRIVATE, noise_seed=None))
    record = parties.lead("out", agreement, parties.grid(agreement, look))
    assert len(keys) == len(set(keys.values())) == 3
    assert record["privacy"]["noise_generator"].startswith("cryptographic")


@pytest.mark.slow
@pytest.mark.parametrize("privacy", [None, PRIVATE])
def test_a_run_that_was_cut_goes_on(parties: Parties, privacy: PrivacySettings | None) -> None:
    agreement = parties.agreement(privacy)
    sent = 0

    def cut(message: Message) -> None:
        nonlocal sent
        sent += message.metadata.message_type == "train.round"
        if sent > 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parties.lead("cut", agreement, parties.grid(agreement, cut))
    assert (parties.folder / "cut" / RUN_FILE).is_file()
    parties.lead("cut", agreement)
    parties.lead("whole", agreement)
    parties.require_equal("cut", "whole", rtol=0.0, atol=0.0)
    assert not (parties.folder / "cut" / RUN_FILE).exists()
    assert parties.lead("cut", agreement)["identity"]["engine"] == "flower"  # done: nothing is trained again


def test_what_is_agreed_survives_the_way_through_toml(parties: Parties, tmp_path: Path) -> None:
    for agreement in (parties.agreement(), parties.agreement(PRIVATE, secure=True), parties.agreement(lora=6)):
        write_app(tmp_path / "app", agreement, ServerConfig("a start", 'an "out"'))
        table = tomllib.loads((tmp_path / "app/pyproject.toml").read_text())["tool"]["flwr"]["app"]
        config = flatten_dict(table["config"])
        assert Agreement.from_config(config) == agreement
        assert ServerConfig.from_config(config).out == 'an "out"'
        with pytest.raises(UsageError, match="runs pfl-audit 9, and this is"):
            Agreement.from_config({**config, "version": "9"})
        with pytest.raises(UsageError, match=r"cannot be read: 'rounds.seed'"):
            Agreement.from_config({key: value for key, value in config.items() if key != "rounds.seed"})


@pytest.mark.slow
def test_a_process_opens_data_and_model_once_for_all_messages(
    parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    models: list[Path] = []

    def read_corpus(path: Path, part: Any) -> Corpus:
        read.append(path)
        return open_corpus(path, part)

    def open_model(start: Path, *rest: Any) -> Any:
        models.append(start)
        return open_trainable(start, *rest)

    monkeypatch.setattr(opened, "open_corpus", read_corpus)
    monkeypatch.setattr(opened, "open_trainable", open_model)
    agreement = parties.agreement(PRIVATE, lora=3)  # another rank than in the other tests
    parties.lead("apart", agreement)
    assert sorted(map(str, read)) == [node["data"] for node in parties.nodes]
    whole = Path(parties.nodes[0]["data"])
    for number in (1, 2):  # as in a simulation: one corpus with all clients
        shutil.copy(parties.corpus / f"imdb/blue/blue_train_client_{number}.npy", whole / "imdb")
    for node in parties.nodes:
        node["data"] = str(whole)
    read.clear()
    parties.lead("simulated", agreement)
    assert read == [whole]
    assert models == [parties.start]
    parties.require_equal("simulated", "apart", rtol=0.0, atol=0.0)

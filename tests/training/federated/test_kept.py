"""Kept messages: those that the server adds up, whose they are, and refusals."""

import math
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from pfl_audit.cli.main import run
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.progress import Silent
from pfl_audit.training.federated import phases, server
from pfl_audit.training.federated.kept import MODEL, kept_path, messages_of, read_record
from pfl_audit.training.federated.worker import Worker
from pfl_audit.training.parts import split_queries
from tests.training.federated.conftest import PRIVATE, QUICK, Federate

SGD = replace(QUICK, optimizer="sgd", learning_rate=0.5)


def test_kept_messages_add_up_to_the_model(federate: Federate) -> None:
    federate("out", "fl", settings=SGD, keep_updates=True)
    folder = kept_path(federate.folder / "out")
    assert read_record(folder).settings == SGD.to_dict()
    kept = list(messages_of(folder))
    assert [message.round for message in kept] == [1, 1, 2, 2, 3, 3]
    for number in (1, 2, 3):
        model = load_file(folder / f"round-{number:04d}" / MODEL)
        parts = [load_file(message.path) for message in kept if message.round == number]
        after = folder / f"round-{number + 1:04d}" / MODEL
        following = load_file(after) if number < 3 else federate.weights("out")
        for name, tensor in model.items():
            wanted = tensor + (parts[0][name] + parts[1][name]) / 2
            torch.testing.assert_close(following[name], wanted, rtol=1e-6, atol=1e-7)
    assert not (federate.folder / "out").joinpath(folder.name).exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in folder.rglob("*"))


@pytest.mark.slow
def test_a_message_names_the_questions_that_it_was_trained_on(federate: Federate) -> None:
    federate("out", "fl", settings=replace(SGD, local_steps=None), keep_updates=True)
    federate("some", "fl", settings=replace(SGD, local_steps=1), keep_updates=True)
    train, _ = split_queries(open_corpus(federate.corpus, "blue"))
    for message in messages_of(kept_path(federate.folder / "out")):
        (client,) = message.origin.clients
        assert message.origin.noise == 0
        assert message.origin.queries is not None
        assert set(message.origin.queries) == {query.id for query in train if query.document.client == client}
    for message in messages_of(kept_path(federate.folder / "some")):
        assert message.origin.queries is not None
        assert len(message.origin.queries) == SGD.batch_size


def test_a_private_message_states_its_own_noise(federate: Federate) -> None:
    settings = replace(SGD, rounds=1)
    federate("out", "fl-dp", PRIVATE, settings, keep_updates=True)
    folder = kept_path(federate.folder / "out")
    kept = list(messages_of(folder))
    assert PRIVATE.noise_multiplier is not None
    wanted = PRIVATE.noise_multiplier * PRIVATE.clip / math.sqrt(len(kept))
    assert [message.origin.noise for message in kept] == pytest.approx([wanted] * len(kept))
    assert read_record(folder).clip == PRIVATE.clip
    quiet = torch.cat([part.flatten() for part in load_file(kept[0].path).values()])
    assert float(quiet.std()) == pytest.approx(wanted, rel=0.05)


@pytest.mark.slow
def test_a_run_that_was_cut_keeps_the_same_messages(federate: Federate, monkeypatch: pytest.MonkeyPatch) -> None:
    federate("whole", "fl", settings=SGD, keep_updates=True)
    report, count = Worker.whole_report, 0

    def stop(*arguments: object) -> object:
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        return report(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Worker, "whole_report", stop)
    monkeypatch.setattr(server, "_SAVE_SECONDS", -1.0)
    with pytest.raises(KeyboardInterrupt):
        federate("cut", "fl", settings=SGD, keep_updates=True)
    monkeypatch.setattr(Worker, "whole_report", report)
    federate("cut", "fl", settings=SGD, keep_updates=True)
    one, other = (kept_path(federate.folder / name) for name in ("whole", "cut"))
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file())
    assert all((one / path).read_bytes() == (other / path).read_bytes() for path in files)


def test_what_cannot_be_kept_is_refused(federate: Federate, monkeypatch: pytest.MonkeyPatch) -> None:
    federate("out", "fl", settings=SGD)
    with pytest.raises(UsageError, match="no messages of a federation"):
        federate("out", "fl", settings=SGD, keep_updates=True)  # it is trained already
    federate("kept", "fl", settings=SGD, keep_updates=True)
    kept_path(federate.folder / "kept").rename(kept_path(federate.folder / "other"))
    with pytest.raises(UsageError, match="messages of another run"):
        federate("other", "fl", settings=replace(SGD, seed=1), keep_updates=True)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1))
    with pytest.raises(UsageError, match="the messages take"):
        federate("full", "fl", settings=SGD, keep_updates=True)
    assert not kept_path(federate.folder / "full").exists()


@pytest.mark.parametrize("mode", ["central", "central-dp"])
def test_central_training_sends_no_message(mode: str, federate: Federate, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--data", str(federate.corpus), "--out", str(federate.folder / "out"), "--mode", mode]
    assert run(["train", *given, "--keep-updates"]) == 4
    assert "--keep-updates" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["{}", "[]", "nothing", '{"clients": [0], "noise": -1, "queries": null}', '{"clients": "0"}']
)
def test_a_damaged_record_costs_one_line(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "round-0001"
    folder.mkdir()
    (folder / "client-0000.safetensors").write_bytes(b"")
    (folder / "client-0000.json").write_text(text)
    with pytest.raises(AuditError, match=r"client-0000\.json"):
        list(messages_of(tmp_path))
    (tmp_path / "federation.json").write_text(text)
    with pytest.raises(AuditError, match=r"federation\.json"):
        read_record(tmp_path)
    with pytest.raises(UsageError, match="has no round 7"):
        list(messages_of(tmp_path, [7]))


def test_messages_are_in_the_order_of_clients_beyond_four_digits(tmp_path: Path) -> None:
    folder = tmp_path / "round-0001"
    folder.mkdir()
    for client in (10_000, 9_999, 3):
        (folder / f"client-{client:04d}.safetensors").touch()
        (folder / f"client-{client:04d}.json").write_text(f'{{"clients": [{client}]}}')
    assert [message.origin.clients for message in messages_of(tmp_path)] == [(3,), (9_999,), (10_000,)]


def test_keeping_messages_changes_no_weight(federate: Federate) -> None:
    kept = federate("kept", "fl", settings=SGD, keep_updates=True)
    plain = federate("plain", "fl", settings=SGD)
    assert kept["identity"] == plain["identity"]
    without = federate.weights("plain")
    for name, tensor in federate.weights("kept").items():
        assert torch.equal(tensor, without[name])


@pytest.mark.slow
def test_messages_of_other_noise_are_not_mixed_with_those_of_a_new_run(federate: Federate) -> None:
    class Cut(Silent):
        def say(self, text: str) -> None:
            if text.startswith("round 2"):
                raise KeyboardInterrupt

    secret = replace(PRIVATE, noise_seed=None)
    with pytest.raises(KeyboardInterrupt):
        federate("out", "fl-dp", secret, SGD, Cut(), keep_updates=True)
    shutil.rmtree(federate.folder / "out")
    with pytest.raises(UsageError, match="messages of another run"):
        federate("out", "fl-dp", secret, SGD, keep_updates=True)
    shutil.rmtree(kept_path(federate.folder / "out"))
    with pytest.raises(KeyboardInterrupt):
        federate("out", "fl-dp", secret, SGD, Cut(), keep_updates=True)
    federate("out", "fl-dp", secret, SGD, keep_updates=True)
    folder = kept_path(federate.folder / "out")
    assert {message.round for message in messages_of(folder)} == {1, 2, 3}


@pytest.mark.slow
def test_a_run_that_was_cut_after_its_last_round_finds_its_messages(
    federate: Federate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> object:
        raise KeyboardInterrupt

    secret = replace(PRIVATE, noise_seed=None)
    monkeypatch.setattr(phases, "finish", stop)
    with pytest.raises(KeyboardInterrupt):
        federate("out", "fl-dp", secret, SGD, keep_updates=True)
    monkeypatch.undo()
    federate("out", "fl-dp", secret, SGD, keep_updates=True)
    assert {message.round for message in messages_of(kept_path(federate.folder / "out"))} == {1, 2, 3}

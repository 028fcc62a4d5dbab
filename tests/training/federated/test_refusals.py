"""Bad input, other runs' folders, SIGKILL, and what the command says."""

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pfl_audit.cli.main import run
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.vt5.training import open_training
from pfl_audit.privacy.ledger import Ledger
from pfl_audit.progress import Silent
from pfl_audit.training.federated.run import KEY_FILE
from pfl_audit.training.federated.server import STATE_FILE
from pfl_audit.training.trainable import choose_trainable
from tests.training.federated.conftest import PRIVATE, QUICK, Federate, Make
from tests.training.killed import kill_once_there


@pytest.mark.parametrize(
    ("mode", "privacy", "settings", "complaint"),
    [
        ("fl-dp", {"clip": 0.0}, {}, "clip must be greater than 0"),
        ("fl-dp", {"epsilon": 1e-12, "delta": 1e-15, "noise_multiplier": None}, {}, "cannot be reached"),
        ("fl-dp", {"epsilon": 1.0}, {}, "one of --epsilon and --sigma"),
        ("fl-dp", {"delta": 1.0}, {}, "delta must be"),
        ("fl-dp", {"provider_rate": 0.0}, {}, "provider_rate must be"),
        ("fl-dp", {"public_providers": None}, {}, "needs a public number to divide its sums by"),
        ("fl-dp", {"public_providers": 0}, {}, "public_providers must be at least 1"),
        ("fl-dp", {"denominator": 0.0}, {}, "denominator must be greater than 0"),
        ("fl", None, {"clients_per_round": 9}, "9 clients a round were asked for, and there are 3"),
        ("fl", None, {"rounds": 0}, "rounds must be at least 1"),
        ("fl", None, {"weight_decay": math.inf}, "weight_decay must be a finite number"),
        ("fl", None, {"proximal": math.inf}, "proximal must be a finite number"),
        ("fl", None, {"strategy": "magic"}, "no server strategy 'magic'"),
        ("fl", None, {"optimizer": "magic"}, "no optimiser 'magic'"),
    ],
)
def test_settings_that_cannot_be(
    federate: Federate, mode: str, privacy: dict[str, Any] | None, settings: dict[str, Any], complaint: str
) -> None:
    asked = None if privacy is None else replace(PRIVATE, **privacy)
    with pytest.raises(UsageError, match=complaint) as caught:
        federate("out", mode, asked, replace(QUICK, **settings))
    assert caught.value.remedy


def test_a_private_run_needs_a_start_that_has_not_seen_the_documents(federate: Federate) -> None:
    with pytest.raises(UsageError, match="cannot begin from nothing"):
        federate("out", "fl-dp", PRIVATE, start=None)
    federate("seen", "fl")
    with pytest.raises(UsageError, match="was trained on these very documents"):
        federate("out", "fl-dp", PRIVATE, start=federate.folder / "seen")


@pytest.mark.slow
def test_other_settings_or_data_do_not_continue_a_run(federate: Federate) -> None:
    federate("out-2", "fl-dp", PRIVATE)
    with pytest.raises(UsageError, match="another run"):
        federate("out-2", "fl-dp", replace(PRIVATE, clip=0.2))
    state = federate.folder / "out-3"
    with pytest.raises(KeyboardInterrupt):
        federate("out-3", "fl-dp", replace(PRIVATE, noise_seed=None), progress=Cut2())
    assert (state / STATE_FILE).is_file()
    assert (state / KEY_FILE).stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="other data or settings"):
        federate("out-3", "fl-dp", replace(PRIVATE, noise_seed=None, clip=0.2))
    (state / KEY_FILE).unlink()
    with pytest.raises(AuditError, match="missing, and the run cannot go on"):
        federate("out-3", "fl-dp", replace(PRIVATE, noise_seed=None))


class Cut2(Silent):
    """Stops after the first round was saved."""

    def say(self, text: str) -> None:
        if text.startswith("round 2"):
            raise KeyboardInterrupt


@pytest.mark.slow
def test_command_survives_sigkill_and_states_its_claim(
    corpus_folder: Path, make_checkpoint: Make, tmp_path: Path
) -> None:
    arguments = [
        "train", "--mode", "fl-dp", "--data", str(corpus_folder), "--from", str(make_checkpoint(0)), "--out",
        str(tmp_path / "ckpt"), "--rounds", "8", "--local-steps", "1", "--provider-rate", "0.5", "--epsilon", "8",
        "--validate-every", "100", "--public-providers", "12", "--ledger", str(tmp_path / "ledger.json"),
    ]  # fmt: skip
    kill_once_there(arguments, tmp_path / "ckpt" / STATE_FILE)
    reserved = Ledger(tmp_path / "ledger.json").spent().runs
    assert run(arguments) == 0
    record = json.loads((tmp_path / "ckpt/training.json").read_text())
    assert list(reserved) == [record["data"]["commitment"]]
    assert Ledger(tmp_path / "ledger.json").spent().runs == reserved
    claim = record["privacy"]
    assert 7.99 < claim["epsilon"] <= 8.0
    assert claim["unit"] == "provider"
    assert "add or remove one provider" in claim["adjacency"]
    rates = {"client_rate": 1.0, "provider_rate": 0.5, "separation": None}
    assert claim["sampling"] == {"kind": "poisson", "scheme": "providers", **rates}
    assert sorted(path.name for path in (tmp_path / "ckpt").iterdir()) == [
        "communication.csv", "config.json", "generation_config.json", "model.safetensors", "spiece.model",
        "training.json",
    ]  # fmt: skip


@pytest.mark.slow
def test_published_accounting_is_labelled(
    corpus_folder: Path, make_checkpoint: Make, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "train", "--mode", "fl-dp", "--data", str(corpus_folder), "--from", str(make_checkpoint(0)), "--out",
        str(tmp_path / "ckpt"), "--sampling", "clients", "--accounting", "published", "--epsilon", "8",
        "--public-providers", "12", "--dry-run",
    ]  # fmt: skip
    assert run(arguments) == 0
    shown = capfd.readouterr().out
    assert "noise multiplier 0.771484375" in shown
    assert "published accounting: does not hold as stated" in shown
    assert "14.4" in shown
    assert run([*arguments[:-1], "--dry-run", "--json", "--accounting", "valid"]) == 0
    valid = json.loads(capfd.readouterr().out)
    assert valid["privacy"]["noise_multiplier"] > 1.0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--epsilon", "8"], "--epsilon means nothing with --mode central: it trains without privacy"),
        (["--mode", "fl", "--clip", "1"], "--clip means nothing with --mode fl"),
        (["--mode", "fl-dp", "--steps", "9"], "--steps means nothing with --mode fl-dp"),
        (["--mode", "fl-dp", "--client-rate", "0.2"], "--client-rate means nothing without --sampling clients"),
        (["--mode", "central-dp", "--sampling", "clients"], "--sampling means nothing with --mode central-dp"),
        (["--mode", "fl-dp", "--clients-per-round", "2"], "--clients-per-round means nothing"),
        (["--secagg"], "--secagg means nothing without --engine flower"),
    ],
)
def test_no_option_is_ignored(
    corpus_folder: Path, tmp_path: Path, options: list[str], complaint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", "--data", str(corpus_folder), "--out", str(tmp_path / "ckpt"), *options]) == 4
    assert complaint in capfd.readouterr().err


def test_a_published_record_does_not_hold_the_seed_of_the_noise(federate: Federate) -> None:
    record = federate("out", "fl-dp", replace(PRIVATE, noise_seed=987654321), replace(QUICK, rounds=1))
    assert "987654321" not in json.dumps(record)
    assert "987654321" not in (federate.folder / "out/training.json").read_text()


def test_runs_with_one_seed_share_no_noise(federate: Federate) -> None:
    settings = replace(QUICK, rounds=1)
    before = choose_trainable(open_training(federate.start)).read()
    moved = []
    for name, sigma in (("one", 50.0), ("two", 100.0)):
        federate(name, "fl-dp", replace(PRIVATE, noise_multiplier=sigma), settings)
        moved.append(choose_trainable(open_training(federate.folder / name)).read() - before)
    assert abs(float(torch.corrcoef(torch.stack(moved))[0, 1])) < 0.05


@pytest.mark.slow
def test_a_secret_is_drawn_once_and_leaves_nothing_behind(federate: Federate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut and resumed with a secret key: the same weights, one draw, no key, no halves of files."""
    from pfl_audit.training.federated import secure_rng

    draws = []

    def urandom(size: int) -> bytes:
        draws.append(size)
        return bytes([7]) * size

    monkeypatch.setattr(secure_rng.os, "urandom", urandom)
    secret = replace(PRIVATE, noise_seed=None)
    federate("whole", "fl-dp", secret)
    assert draws == [secure_rng.KEY_BYTES]
    with pytest.raises(KeyboardInterrupt):
        federate("cut", "fl-dp", secret, progress=Cut2())
    (federate.folder / "cut/.round-state.safetensors.x.part").write_bytes(b"half")
    (federate.folder / "cut/.training-state.safetensors.x.part").write_bytes(b"half")
    federate("cut", "fl-dp", secret)
    assert draws == [secure_rng.KEY_BYTES] * 2
    whole, cut = federate.weights("whole"), federate.weights("cut")
    for name, tensor in whole.items():
        assert torch.equal(tensor, cut[name]), name
    assert not [path.name for path in (federate.folder / "cut").iterdir() if path.suffix in (".key", ".part")]


def test_rounds_deal_with_clients_as_asked(federate: Federate) -> None:
    """Without privacy K of N, in the long run all alike."""
    from pfl_audit.training.federated.secure_rng import SecretStream, new_key
    from pfl_audit.training.federated.server import Server

    plain = Server(QUICK, range(10), None, SecretStream(new_key(0)), Path("x"), "")
    counts = Counter(client for number in range(1, 1001) for client in plain.task(number).clients)
    assert all(len(plain.task(number).clients) == 2 for number in range(1, 50))
    assert max(counts.values()) < 260
    assert min(counts.values()) > 140
    assert np.mean([len(plain.task(number).clients) for number in range(1, 100)]) == 2

"""Self-pretraining over Flower: the models of the local engine, one guarantee, and rounds that were not agreed."""

import json
import os
import signal
import tomllib
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

import torch
from flwr.app import Message
from flwr.common.config import flatten_dict

from pfl_audit.cli.main import run
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.self_pretraining import MARKERS
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.keys import EMBEDDING
from pfl_audit.privacy.calibration import calibrate_noise
from pfl_audit.privacy.ledger import Ledger, default_path
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.training.federated.codecs import FLOAT32
from pfl_audit.training.federated.flower.agreement import Agreement
from pfl_audit.training.federated.flower.client_state import FILE as JOURNAL
from pfl_audit.training.federated.flower.messenger import Messenger
from pfl_audit.training.federated.flower.round_config import ROUND
from pfl_audit.training.federated.flower.wire import read_round, round_content
from pfl_audit.training.federated.run import KEY_FILE, STATE_FILE
from pfl_audit.training.federated.settings import PrivacySettings
from pfl_audit.training.pretraining import FOLDER, Pretraining
from tests.conftest import ROWS
from tests.models.donut.conftest import make_donut
from tests.training.federated.flower.parties import PRIVATE, QUICK, Parties

__all__ = ["make_donut"]
FIRST = Pretraining("tm,lm", pretrain_rounds=2, pretrain_learning_rate=5e-4)
SECRET = replace(PRIVATE, noise_seed=None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("privacy", "lora", "first"),
    [
        (None, 0, replace(FIRST, pretrain_client_fraction=1.0, pretrain_strategy="fedadam")),
        (None, 2, FIRST),
        (PRIVATE, 0, replace(FIRST, pretrain_clip=0.05)),
        (replace(PRIVATE, sampling="clients", client_rate=0.5), 2, FIRST),
    ],
)
def test_both_engines_end_with_the_same_model(
    parties: Parties, privacy: PrivacySettings | None, lora: int, first: Pretraining
) -> None:
    agreement = parties.agreement(privacy, lora=lora, pretraining=first)
    ours, local = parties.lead("flower", agreement), parties.local("local", agreement)
    parties.require_equal("flower", "local")
    trained, start = parties.weights("flower")[EMBEDDING], load_vt5(parties.start).network.state_dict()[EMBEDDING]
    assert len(trained) == ROWS + len(MARKERS)
    assert torch.equal(trained[:ROWS], start) == bool(lora)
    assert ours["privacy"] == (local["privacy"] if privacy is None else {**local["privacy"], "composed": None})
    assert ours["communication"] == local["communication"]
    one, other = ours["pretraining"], local["pretraining"]
    assert one["rounds"] == other["rounds"] == 2
    for name in ("loss_tm", "loss_lm"):
        assert one["history"][-1][name] == pytest.approx(other["history"][-1][name], rel=1e-3)
    written, wanted = (parties.folder / name for name in ("flower", "local"))
    assert (written / "communication.csv").read_text() == (wanted / "communication.csv").read_text()
    assert {path.name for path in written.iterdir()} == {path.name for path in wanted.iterdir()}


@pytest.mark.slow
def test_secure_sums_of_both_phases(parties: Parties) -> None:
    """The reach of a coordinate follows the clipping norm of the phase."""
    first = replace(FIRST, pretrain_rounds=1, pretrain_clip=0.3)
    agreement = parties.agreement(PRIVATE, settings=replace(QUICK, rounds=1), lora=2, pretraining=first)
    parties.lead("plain", agreement)
    record = parties.lead("secure", replace(agreement, secure=True))
    parties.require_equal("secure", "plain", rtol=0.0, atol=5e-6)
    assert record["privacy"]["rounds"] == 2


@pytest.mark.slow
def test_both_phases_have_one_guarantee_and_one_reservation(parties: Parties) -> None:
    keys: dict[str, bytes] = {}
    target = replace(SECRET, noise_multiplier=None, epsilon=8.0)
    agreement = parties.agreement(target, pretraining=replace(FIRST, pretrain_rounds=3))

    def look(message: Message) -> None:
        keys.update({str(path): path.read_bytes() for path in parties.folder.glob(f"work-*/**/{KEY_FILE}")})

    record = parties.lead("out", agreement, parties.grid(agreement, look))
    claim = record["privacy"]
    assert claim["noise_multiplier"] == calibrate_noise(8.0, 1e-5, Sampling(1.0, PRIVATE.provider_rate, 5))
    assert claim["rounds"] == claim["rounds_accounted"] == 5
    for node in parties.nodes:
        spent = Ledger(default_path(Path(node["data"]))).spent()
        assert [held.rounds for held in spent.runs.values()] == [5]
        assert spent.epsilon == claim["epsilon"]
        (folder,) = Path(node["work"]).iterdir()
        assert [path.name for path in folder.iterdir()] == [JOURNAL]  # no key, page or state of either phase
        answered = json.loads((folder / JOURNAL).read_text())["rounds"]
        assert sorted(answered) == ["1", "2", *(f"{FOLDER} {number}" for number in (1, 2, 3))]
    assert len(keys) == len(set(keys.values())) == 2 * 3  # the noise of the phases is independent
    released = json.loads((parties.folder / "out/training.json").read_text())
    assert "pretraining" not in released
    assert released["identity"]["pretraining"]["pretrain_rounds"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(("privacy", "lora"), [(None, 2), (PRIVATE, 0)])
def test_a_server_that_was_cut_in_both_phases_goes_on(
    parties: Parties, privacy: PrivacySettings | None, lora: int
) -> None:
    agreement = parties.agreement(privacy, lora=lora, pretraining=FIRST)
    parties.lead("whole", agreement)
    cut = parties.folder / "cut"
    for phase in (FOLDER, ""):

        def stop(message: Message, phase: str = phase) -> None:
            if message.metadata.message_type == ROUND and not message.metadata.reply_to_message_id:
                order, _ = read_round(message.content, FLOAT32)
                if (order.phase, order.number) == (phase, 2):
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            parties.lead("cut", agreement, parties.grid(agreement, stop))
        assert (cut / phase / STATE_FILE).is_file()
    parties.lead("cut", agreement)
    parties.require_equal("cut", "whole", rtol=0.0, atol=0.0)
    assert not (cut / FOLDER).exists()


def _die(parties: Parties, agreement: Agreement) -> None:
    """A server that is killed as it begins the second round of self-pretraining."""
    torch.set_num_threads(1)  # the threads of the first process are not in its fork

    def kill(message: Message) -> None:
        if (parties.folder / "killed" / FOLDER / STATE_FILE).is_file():
            os.kill(os.getpid(), signal.SIGKILL)

    parties.lead("killed", agreement, parties.grid(agreement, kill))


@pytest.mark.slow
def test_a_server_survives_sigkill_in_the_first_phase(parties: Parties) -> None:
    agreement = parties.agreement(PRIVATE, lora=2, pretraining=FIRST)
    process = get_context("fork").Process(target=_die, args=(parties, agreement))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    parties.lead("killed", agreement)
    parties.local("local", agreement)
    parties.require_equal("killed", "local")


@pytest.mark.slow
def test_a_server_that_asks_for_what_was_not_agreed_is_refused(parties: Parties) -> None:
    agreement = parties.agreement(SECRET, pretraining=FIRST)
    seen: list[Message] = []

    def keep(message: Message) -> None:
        if message.metadata.message_type == ROUND and not message.metadata.reply_to_message_id:
            seen.append(message)
        if len(seen) > 3:  # the second round begins
            raise KeyboardInterrupt

    grid = parties.grid(agreement, keep)
    with pytest.raises(KeyboardInterrupt):
        parties.lead("out", agreement, grid)
    grid.watch = lambda message: None
    order, weights = read_round(seen[0].content, FLOAT32)
    assert (order.phase, order.number) == (FOLDER, 1)

    def ask(order: Any, weights: torch.Tensor) -> torch.Tensor:
        (answer,) = Messenger(grid, 1).ask([Message(round_content(order, weights, FLOAT32), 1000, ROUND)])
        return torch.from_numpy(answer.content.array_records["vector"]["vector"].numpy().copy())

    assert torch.equal(ask(order, weights), ask(order, weights))
    for asked, complaint in (
        ((replace(order, phase="other"), weights), "client 0: a phase is asked for that was not agreed"),
        ((replace(order, number=3), weights), "2 rounds were agreed, and round 3 is asked for"),
        ((order, weights + 1), "round pretraining 1 is asked for again over another model"),
        ((replace(order, sigma=0.1), weights), "states another noise"),
    ):
        with pytest.raises(AuditError, match=complaint):
            ask(*asked)
    assert not torch.equal(ask(replace(order, phase=""), weights), ask(order, weights))


def test_a_run_without_the_phase_refuses_its_rounds(parties: Parties) -> None:
    agreement = parties.agreement(PRIVATE)
    with pytest.raises(AuditError, match="a phase is asked for that was not agreed"):
        agreement.of_phase(FOLDER)


def test_what_is_agreed_survives_the_way_through_toml(parties: Parties, tmp_path: Path) -> None:
    app = tmp_path / "app"
    given = ["--pretrain", "tm,lm", "--pretrain-rounds", "2", "--pretrain-learning-rate", "5e-4"]
    words = ["train", "--engine", "flower", "--app", str(app), "--mode", "fl", "--from", str(parties.start)]
    assert run([*words, "--out", str(tmp_path / "out"), "--clients", "3", "--lora", "2", "-q", *given]) == 0
    config = flatten_dict(tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"])
    assert Agreement.from_config(config).pretraining == FIRST
    for agreement in (parties.agreement(pretraining=FIRST), parties.agreement(PRIVATE, pretraining=FIRST)):
        assert Agreement.from_config(flatten_dict(agreement.to_config())) == agreement
    assert "pretraining" not in parties.agreement().to_dict()  # runs before self-pretraining are still recognised
    with pytest.raises(UsageError, match="no task of self-pretraining 'nlp'"):
        Agreement.from_config({**config, "pretraining.pretrain": "nlp"})


GROUPS = replace(PRIVATE, sampling="fixed-size", providers_per_round=2, minimum_providers=3, public_providers=None)


@pytest.mark.parametrize(
    ("privacy", "changes", "complaint"),
    [
        (GROUPS, {}, "groups of a fixed size are accounted for one phase"),
        (PRIVATE, {"settings": replace(QUICK, client_memory="clgecl")}, "is of private runs of one phase"),
        (None, {"quorum": 2, "pretraining": replace(FIRST, pretrain_client_fraction=0.4)}, "a quorum of 2"),
    ],
)
def test_phases_that_do_not_go_together(
    parties: Parties, privacy: PrivacySettings | None, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        parties.agreement(privacy, **{"pretraining": FIRST, **changes}).check()


def test_no_app_is_written_for_a_family_without_self_pretraining(
    make_donut: Callable[[str], Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [
        "train",
        "--engine",
        "flower",
        "--app",
        str(tmp_path / "app"),
        "--mode",
        "fl",
        "--out",
        str(tmp_path / "o"),
    ]
    assert run([*words, "--from", str(make_donut("ours")), "--pretrain", "tm"]) == 4
    assert "no self-pretraining" in capfd.readouterr().err
    assert not (tmp_path / "app").exists()

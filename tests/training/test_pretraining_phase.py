"""``train --pretrain``: two phases in one run, one folder and one guarantee."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from pfl_audit.cli.main import run
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.self_pretraining import MARKERS
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.keys import EMBEDDING
from pfl_audit.models.vt5.markers import add_markers
from pfl_audit.privacy.accounting import privacy_spent
from pfl_audit.privacy.calibration import calibrate_noise
from pfl_audit.privacy.ledger import Ledger
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.progress import Silent
from pfl_audit.training.dry_run import plan_run
from pfl_audit.training.federated import phases
from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.run import KEY_FILE, STATE_FILE, Federation
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.parts import split_queries
from pfl_audit.training.pretraining import FOLDER, Pretraining
from pfl_audit.training.records import RECORD, private_path
from pfl_audit.training.run import run_training
from pfl_audit.training.settings import TrainSettings
from tests.conftest import ROWS
from tests.models.donut.conftest import make_donut
from tests.training.federated.conftest import PRIVATE, QUICK, Federate, federate
from tests.training.killed import kill_once_there

__all__ = ["federate", "make_donut"]
SHORT = replace(QUICK, rounds=2, local_steps=1, batch_size=2, validate_every=9, validation_queries=2)
FEW = replace(PRIVATE, provider_rate=0.2)
FIRST = Pretraining("tm", pretrain_rounds=2)
SECRET = replace(FEW, noise_seed=None)
CENTRAL = TrainSettings(steps=3, batch_size=2, save_every=1, validate_every=9, validation_queries=2)


class CutAt(Silent):
    """Stops when something has been said so many times."""

    def __init__(self, start: str, times: int = 1) -> None:
        self._start, self._left = start, times

    def say(self, text: str) -> None:
        self._left -= text.startswith(self._start)
        if not self._left:
            raise KeyboardInterrupt


def first_phase_alone(rounds: Callable[..., Any], federation: Federation, *given: Any) -> Any:
    """Runs the rounds of self-pretraining, and stops before those on questions."""
    if not federation.phase:
        raise KeyboardInterrupt
    return rounds(federation, *given)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "privacy", "lora"), [("fl", None, 0), ("fl-dp", FEW, 0), ("fl-dp", FEW, 2)])
def test_a_run_that_is_cut_in_both_phases_ends_with_the_same_weights(
    mode: str, privacy: PrivacySettings | None, lora: int, federate: Federate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(name: str, progress: Silent | None = None) -> dict[str, Any]:
        return federate(name, mode, privacy, SHORT, progress, pretraining=FIRST, lora=lora)

    whole = train("whole")
    with pytest.raises(KeyboardInterrupt):
        train("cut", CutAt("round", 2))
    assert (federate.folder / "cut" / FOLDER / STATE_FILE).is_file()
    with monkeypatch.context() as between:
        between.setattr(phases, "run_rounds", partial(first_phase_alone, phases.run_rounds))
        with pytest.raises(KeyboardInterrupt):
            train("cut")
    assert not (federate.folder / "cut" / FOLDER / KEY_FILE).exists()
    with pytest.raises(KeyboardInterrupt):
        train("cut", CutAt("round 2"))
    assert (federate.folder / "cut" / STATE_FILE).is_file()
    again = train("cut")
    resumed = federate.weights("cut")
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in federate.weights("whole").items())
    assert len(resumed[EMBEDDING]) == ROWS + len(MARKERS)
    assert again["pretraining"] == whole["pretraining"]
    assert not (federate.folder / "cut" / FOLDER).exists()
    if privacy is not None:
        assert [held.rounds for held in Ledger(federate.folder / "ledger.json").spent().runs.values()] == [4, 4]


@pytest.mark.slow
def test_central_training_that_is_cut_in_both_phases_ends_with_the_same_weights(federate: Federate) -> None:
    first = Pretraining("lm,tlm", pretrain_steps=3)

    def train(name: str, progress: Silent | None = None) -> dict[str, Any]:
        return run_training(federate.run(name, "central", pretraining=first), CENTRAL, progress or Silent())

    record = train("whole")
    assert record["pretraining"]["steps"] == record["steps"] == 3
    assert set(record["pretraining"]["history"][-1]) == {"step", "loss", "loss_lm", "loss_tlm"}
    for said in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            train("cut", CutAt("step 3", said))
        assert (federate.folder / "cut" / FOLDER / STATE_FILE).is_file()
    train("cut")
    resumed = federate.weights("cut")
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in federate.weights("whole").items())
    plain = run_training(federate.run("plain", "central"), CENTRAL, Silent())
    assert plain["identity"] != record["identity"]
    assert not torch.equal(
        federate.weights("plain")["language_backbone.shared.weight"], resumed["language_backbone.shared.weight"][:ROWS]
    )
    with pytest.raises(UsageError, match="model of another run"):
        run_training(federate.run("cut", "central"), CENTRAL, Silent())


def marked_start(federate: Federate) -> dict[str, torch.Tensor]:
    """The start with the tokens of self-pretraining, before any training."""
    network = load_vt5(federate.start).network
    add_markers(network)
    return dict(network.state_dict())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "privacy", "settings", "lora"),
    [
        ("fl", None, SHORT, 2),
        ("fl", None, replace(SHORT, freeze_embeddings=True), 0),
        ("fl", None, replace(SHORT, freeze_embeddings=True), 2),
        ("central-dp", FEW, replace(SHORT, lora_parts="adapters"), 2),
        ("fl-dp", FEW, replace(SHORT, lora_parts="up"), 2),
    ],
)
def test_frozen_tables_learn_the_added_tokens_alone(
    mode: str, privacy: PrivacySettings | None, settings: FederatedSettings, lora: int, federate: Federate
) -> None:
    record = federate("out", mode, privacy, settings, pretraining=FIRST, lora=lora)
    start, trained = marked_start(federate), federate.weights("out")
    moved = {name for name, tensor in trained.items() if not torch.equal(tensor, start[name])}
    assert EMBEDDING in moved
    assert torch.equal(trained[EMBEDDING][:ROWS], start[EMBEDDING][:ROWS])
    added = (trained[EMBEDDING] - start[EMBEDDING])[ROWS:]
    assert bool(added.any(dim=1).all())  # sentinels by the softmax, and under privacy each number by its noise
    if settings.freeze_embeddings or settings.lora_parts != "all":
        assert not [name for name in moved if "position_embeddings" in name]
    if mode == "fl":
        plain = federate("plain", mode, privacy, settings, lora=lora)["communication"]
        assert record["communication"]["bytes_a_message"] - plain["bytes_a_message"] == 4 * len(MARKERS) * 32


def test_the_private_update_is_clipped_and_noised_with_the_added_rows(federate: Federate) -> None:
    """Noise alone, of a known size: local trainings hardly move anything at this clipping norm."""
    tiny = replace(FEW, clip=1e-3, noise_multiplier=50.0)
    federate("out", "fl-dp", tiny, replace(SHORT, lora_parts="up"), pretraining=FIRST, lora=2)
    start, trained = marked_start(federate), federate.weights("out")
    added = (trained[EMBEDDING] - start[EMBEDDING])[ROWS:]
    rounds, divisor = 4, 0.2 * 12
    assert float(added.std()) == pytest.approx(50 * 1e-3 / divisor * rounds**0.5, rel=0.02)


@pytest.mark.slow
def test_central_adapters_learn_the_added_tokens_and_go_on(federate: Federate) -> None:
    first = Pretraining("tm", pretrain_steps=3)

    def train(name: str, progress: Silent | None = None) -> None:
        run_training(federate.run(name, "central", pretraining=first, lora=2), CENTRAL, progress or Silent())

    train("whole")
    for said in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            train("cut", CutAt("step 3", said))
    train("cut")
    start, trained, resumed = marked_start(federate), federate.weights("whole"), federate.weights("cut")
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in trained.items())
    assert torch.equal(trained[EMBEDDING][:ROWS], start[EMBEDDING][:ROWS])
    assert not torch.equal(trained[EMBEDDING][ROWS:], start[EMBEDDING][ROWS:])
    again = federate.run("again", "central", start=federate.folder / "whole", pretraining=first, lora=2)
    run_training(again, replace(CENTRAL, steps=1), Silent())  # from a start that has the tokens
    assert len(federate.weights("again")[EMBEDDING]) == ROWS + len(MARKERS)


@pytest.mark.slow
def test_a_model_from_nothing_gets_the_tokens_as_well(federate: Federate) -> None:
    given = federate.run("out", "central", start=None, pretraining=Pretraining("tm", pretrain_steps=1))
    run_training(given, replace(CENTRAL, steps=1), Silent())
    assert len(federate.weights("out")["language_backbone.shared.weight"]) == 150 + len(MARKERS)
    assert not (federate.folder / "out" / FOLDER).exists()


def test_both_phases_have_one_guarantee_and_one_reservation(federate: Federate) -> None:
    target = replace(SECRET, noise_multiplier=None, epsilon=8.0)
    record = federate("out", "fl-dp", target, SHORT, pretraining=replace(FIRST, pretrain_rounds=3))
    released = json.loads((federate.folder / "out" / RECORD).read_text())
    claim, sampling = released["privacy"], Sampling(1.0, 0.2, 5)
    assert claim["noise_multiplier"] == calibrate_noise(8.0, 1e-5, sampling)
    assert claim["epsilon"] == privacy_spent(sampling, claim["noise_multiplier"], 1e-5).epsilon <= 8
    assert claim["epsilon"] > privacy_spent(Sampling(1.0, 0.2, 2), claim["noise_multiplier"], 1e-5).epsilon
    assert claim["rounds"] == claim["rounds_accounted"] == 5
    [(commitment, held)] = Ledger(federate.folder / "ledger.json").spent().runs.items()
    assert (commitment, held.rounds) == (record["data"]["commitment"], 5)
    assert claim["composed"]["runs"] == 1
    assert [entry["epsilon"] for entry in record["history"]] == [claim["epsilon"]]
    assert record["pretraining"]["history"][-1]["epsilon"] < claim["epsilon"]
    assert "pretraining" not in released  # history and counts are private; its settings are in the identity
    assert released["identity"]["pretraining"]["pretrain_rounds"] == 3
    assert released["communication"]["messages"] == 2 * 3 * 5
    lines = (federate.folder / "out" / "communication.csv").read_text().splitlines()
    assert lines[-1].split(",")[0] == "5"
    assert private_path(federate.folder / "out").is_file()


def test_a_run_that_stops_between_the_phases_has_spent_both(federate: Federate) -> None:
    with pytest.raises(KeyboardInterrupt):
        federate("out", "fl-dp", SECRET, SHORT, CutAt("round 2"), pretraining=FIRST)
    assert [held.rounds for held in Ledger(federate.folder / "ledger.json").spent().runs.values()] == [4]
    both = privacy_spent(Sampling(1.0, 0.2, 4), 0.8, 1e-5).epsilon
    refused = federate.run("next", "fl-dp", pretraining=FIRST, budget_cap=both + 0.1)
    with pytest.raises(UsageError, match="the budget is used up"):
        run_training(refused, SHORT, Silent(), SECRET)
    assert not (federate.folder / "next").exists()
    with pytest.raises(UsageError, match="other data or settings"):
        federate("out", "fl-dp", SECRET, SHORT, pretraining=replace(FIRST, pretrain_rounds=1))
    for file in (federate.folder / "out" / FOLDER).iterdir():
        file.unlink()
    (federate.folder / "out" / KEY_FILE).write_bytes(bytes(64))  # a second phase without its first
    with pytest.raises(AuditError, match="is not whole"):
        federate("out", "fl-dp", SECRET, SHORT, pretraining=FIRST)


def test_the_noise_of_the_phases_is_independent(tmp_path: Path) -> None:
    def streams(first: Pretraining | None, name: str) -> list[float]:
        identity = {"pretraining": first.to_dict()} if first else {}
        federation = Federation("fl-dp", SHORT, FEW, tmp_path / name, identity, pretraining=first)
        every = [federation, *([federation.first(first)] if first else [])]
        return [float(one.stream().normal(1, "noise", 1, 0)[0]) for one in every]

    drawn = [*streams(FIRST, "one"), *streams(replace(FIRST, pretrain="lm"), "two"), *streams(None, "three")]
    assert len(set(drawn)) == 5
    assert streams(FIRST, "again") == drawn[:2]


def test_each_phase_has_its_own_rounds_and_the_same_clients(
    federate: Federate, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, seen = Federation.worker, list[tuple[Any, ...]]()

    def watched(self: Federation, client: Client, trainer: Any, plan: Any, stream: Any) -> Any:
        rows, sigma = sum(map(len, client.providers)), plan.mechanism.noise.multiplier
        seen.append((self.settings, plan.settings.clip, sigma, client.number, client.tags, rows))
        return worker(self, client, trainer, plan, stream)

    monkeypatch.setattr(Federation, "worker", watched)
    first = replace(
        FIRST, pretrain_rounds=1, pretrain_strategy="fedadam", pretrain_server_rate=0.01, pretrain_learning_rate=1e-4,
        pretrain_clip=0.3,
    )  # fmt: skip
    federate("out", "fl-dp", FEW, replace(SHORT, rounds=1), pretraining=first)
    before, after = seen[:3], seen[3:]
    own = {(one.rounds, one.strategy, one.server_rate, one.learning_rate) for one, *_ in before}
    assert own == {(1, "fedadam", 0.01, 1e-4)}
    assert {(one.rounds, one.strategy) for one, *_ in after} == {(1, "fedavg")}
    assert ({clip for _, clip, *_ in before}, {clip for _, clip, *_ in after}) == ({0.3}, {0.1})
    assert len({sigma for _, _, sigma, *_ in seen}) == 1
    assert [held[3:5] for held in before] == [held[3:5] for held in after]
    train, _ = split_queries(open_corpus(federate.corpus, "blue"))
    assert sum(held[5] for held in before) == len({query.document.id for query in train})
    assert sum(held[5] for held in after) == len(train)


def test_fractions_of_both_phases_are_apart(federate: Federate) -> None:
    settings = replace(SHORT, rounds=1, client_fraction=1.0)
    record = federate("out", "fl", None, settings, pretraining=replace(FIRST, pretrain_client_fraction=0.35))
    taken = (federate.folder / "out" / "communication.csv").read_text().splitlines()[1:]
    assert [line.split(",")[0] for line in taken] == ["1"] * 2 + ["2"] * 2 + ["3"] * 6
    assert record["pretraining"]["updates"] == {"kept": 2}
    with pytest.raises(UsageError, match="0 clients a round") as caught:
        federate("none", "fl", None, settings, pretraining=replace(FIRST, pretrain_client_fraction=0.1))
    assert "--pretrain-client-fraction" in caught.value.remedy
    assert not (federate.folder / "none").exists()


@pytest.mark.slow
def test_a_dry_run_counts_both_phases(federate: Federate, capfd: pytest.CaptureFixture[str]) -> None:
    target = replace(SECRET, noise_multiplier=None, epsilon=8.0)
    plan = plan_run(federate.run("out", "fl-dp", pretraining=FIRST), SHORT, Silent(), target)
    assert plan["privacy"]["rounds"] == 4
    assert plan["communication"]["messages"] == 2 * 3 * 4
    assert plan["pretraining"]["rounds"] == 2
    assert plan["pretraining"]["estimate"]["optimiser_steps"] > 0
    assert not (federate.folder / "ledger.json").exists()
    arguments = ["train", "--data", str(federate.corpus), "--from", str(federate.start), "--out", "none"]
    assert (
        run([*arguments, "--pretrain", "tm", "--pretrain-steps", "7", "--steps", "5", "--batch-size", "2", "--dry-run"])
        == 0
    )
    shown = capfd.readouterr().out
    assert "estimate of self-pretraining: 7 steps" in shown
    assert "\nestimate: 5 steps" in shown


@pytest.mark.slow
@pytest.mark.parametrize("adapted", [[], ["--lora", "2", "--lora-parts", "up"]])
def test_command_survives_sigkill_in_both_phases_and_its_checkpoint_opens(
    adapted: list[str],
    corpus_folder: Path,
    make_checkpoint: Callable[[int], Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "ckpt"
    arguments = [
        "train", "--mode", "fl-dp", "--data", str(corpus_folder), "--from", str(make_checkpoint(0)), "--out", str(out),
        "--pretrain", "tm,tlm", "--pretrain-form", "code", "--pretrain-rounds", "4", "--pretrain-strategy",
        "fedadam", "--rounds", "4", "--local-steps", "1", "--batch-size", "2", "--provider-rate", "0.2",
        "--validate-every", "100", "--public-providers", "12", "--ledger", str(tmp_path / "ledger.json"), "-q",
        *adapted,
    ]  # fmt: skip
    kill_once_there(arguments, out / FOLDER / STATE_FILE)
    assert not (out / STATE_FILE).exists()
    kill_once_there(arguments, out / STATE_FILE)
    assert run(arguments) == 0
    record = json.loads((out / RECORD).read_text())
    assert list(Ledger(tmp_path / "ledger.json").spent().runs) == [record["data"]["commitment"]]
    assert 7.9 < record["privacy"]["epsilon"] <= 8.0
    assert record["privacy"]["rounds"] == 8
    assert sorted(path.name for path in out.iterdir()) == [
        *(["adapters"] if adapted else []), "communication.csv", "config.json", "generation_config.json",
        "model.safetensors", "spiece.model", "training.json",
    ]  # fmt: skip
    capfd.readouterr()
    assert run(["inspect", str(out)]) == 0
    assert "vt5" in capfd.readouterr().out.lower()
    assert run(["account", "--review", str(out), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["worth"] == "holds"
    asked = ["--red", str(corpus_folder), "--check", "membership.azk", "--check", "memorization.generalisation"]
    assert run(["audit", "--model", str(out), *asked, "--fail-on", "never", "-q", "--out", str(tmp_path / "a")]) == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--pretrain", "tm,nlp"], "no task of self-pretraining 'nlp'"),
        (["--pretrain", ""], "no task of self-pretraining ''"),
        (["--pretrain-rounds", "3", "--mode", "fl"], "--pretrain-rounds means nothing without --pretrain"),
        (["--pretrain", "tm", "--pretrain-rounds", "3"], "--pretrain-rounds means nothing with --mode central"),
        (["--pretrain", "tm", "--mode", "fl", "--pretrain-clip", "1"], "--pretrain-clip means nothing with --mode fl"),
        (
            ["--pretrain", "tm", "--mode", "fl", "--pretrain-steps", "1"],
            "--pretrain-steps means nothing with --mode fl",
        ),
        (
            ["--pretrain", "tm", "--mode", "fl-dp", "--pretrain-client-fraction", "0.5"],
            "both phases have one sampling and one guarantee",
        ),
        (["--pretrain", "tm", "--mode", "fl", "--pretrain-server-rate", "0.1"], "means nothing with server strategy"),
        (["--pretrain", "tm", "--mode", "fl", "--pretrain-strategy", "fedbest"], "no server strategy 'fedbest'"),
        (["--pretrain", "tm", "--task", "mlm"], "--pretrain means nothing with --task mlm"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    options: list[str], complaint: str, federate: Federate, capfd: pytest.CaptureFixture[str]
) -> None:
    given = [
        "train",
        "--data",
        str(federate.corpus),
        "--from",
        str(federate.start),
        "--out",
        str(federate.folder / "o"),
    ]
    assert run([*given, *options]) == 4
    said = capfd.readouterr().err
    assert complaint in " ".join(said.split())
    assert not (federate.folder / "o").exists()


def test_its_learning_rate_has_the_bounds_of_the_fine_tuning() -> None:
    Pretraining("tm", pretrain_learning_rate=2.0).check()
    with pytest.raises(UsageError, match="pretrain"):
        Pretraining("tm", pretrain_learning_rate=100.0).check()


def test_a_family_without_self_pretraining_is_refused(
    make_donut: Callable[[str], Path], federate: Federate, capfd: pytest.CaptureFixture[str]
) -> None:
    given = ["train", "--data", str(federate.corpus), "--from", str(make_donut("ours"))]
    assert run([*given, "--out", str(federate.folder / "o"), "--pretrain", "tm"]) == 4
    assert "models of this family have no self-pretraining" in capfd.readouterr().err
    assert not (federate.folder / "o").exists()

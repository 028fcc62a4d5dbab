"""What is sent, counted and planned."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pfl_audit.errors import UsageError
from pfl_audit.models.vt5.checkpoint import LoadedVt5
from pfl_audit.models.vt5.training import TrainableVt5, open_training
from pfl_audit.progress import Silent
from pfl_audit.training.dry_run import plan_run
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.trainable import Trainable, choose_trainable
from tests.training.federated.conftest import PRIVATE, QUICK, Federate, Make


def test_tied_weights_are_one_part_of_the_vector(make_checkpoint: Make) -> None:
    model = open_training(make_checkpoint(0))
    network, trainable = model.network, choose_trainable(model)
    shared = network.language_backbone.shared.weight
    assert sum(parameter is shared for parameter in trainable.parameters) == 1
    vector = trainable.read()
    assert len(vector) == trainable.size == sum(p.numel() for p in network.parameters() if p.requires_grad)
    trainable.write(vector + 1)
    for alias in (network.language_backbone.encoder.embed_tokens, network.language_backbone.lm_head):
        assert torch.equal(alias.weight, shared)
    assert trainable.bytes_with_aliases - trainable.bytes_once == 3 * 4 * shared.numel()


def test_messages_of_a_base_size_model_are_the_papers() -> None:
    from pfl_audit.training.federated.communication import summary
    from pfl_audit.training.lora import Adapters
    from pfl_audit.training.scratch import new_vt5

    with torch.device("meta"):
        loaded = LoadedVt5(new_vt5("base", 32128, seed=0), None, ())  # type: ignore[arg-type] # nothing is tokenised
    model = TrainableVt5(loaded, Path(), device="meta")
    whole = choose_trainable(model)
    assert whole.bytes_with_aliases == 1_198_728_192
    assert whole.bytes_once == 902_636_544
    totals = summary(2 * 2 * 10, whole.bytes_once, whole.bytes_with_aliases)["papers_way"]
    assert round(whole.bytes_with_aliases / 2**30, 2) == 1.12
    assert totals["GiB"] == pytest.approx(44.65, abs=0.01)
    adapted = Adapters(model, 6, seed=0).trainable
    assert adapted.bytes_once == adapted.bytes_with_aliases == 13_676_544


def test_every_message_is_logged(federate: Federate) -> None:
    record = federate("out", "fl")
    rows = list(csv.DictReader((federate.folder / "out/communication.csv").open()))
    assert list(rows[0]) == ["round", "sender", "receiver", "bytes"]
    assert len(rows) == 3 * 2 * 2 == record["communication"]["messages"]
    assert sum(int(row["bytes"]) for row in rows) == record["communication"]["bytes"]
    trainable = Trainable(open_training(federate.start).network)
    assert record["communication"]["bytes_a_message"] < 4 * trainable.size
    for number in ("1", "2", "3"):
        down = [row["receiver"] for row in rows if row["round"] == number and row["sender"] == "-1"]
        up = [row["sender"] for row in rows if row["round"] == number and row["receiver"] == "-1"]
        assert len(set(down)) == 2
        assert down == up


def test_a_dry_run_tells_the_plan_and_writes_nothing(federate: Federate) -> None:
    plan = plan_run(federate.run("out", "fl-dp"), QUICK, Silent(), replace(PRIVATE, noise_multiplier=None, epsilon=8.0))
    assert not (federate.folder / "out").exists()
    assert plan["privacy"]["epsilon"] <= 8.0
    assert plan["communication"]["messages"] == 2 * 3 * 3
    assert plan["estimate"]["seconds"] >= 0
    assert plan["estimate"]["peak_memory_bytes"] > 1 << 20
    assert [client["providers"] for client in plan["clients"]] == [4, 4, 4]


@pytest.mark.parametrize("cap", [0.0, -1.0, float("nan"), float("inf")])
def test_a_dry_run_refuses_a_cap_that_is_none(federate: Federate, cap: float) -> None:
    with pytest.raises(UsageError, match="the budget cap is"):
        plan_run(federate.run("out", "fl-dp", budget_cap=cap), QUICK, Silent(), PRIVATE)


def test_central_training_has_a_plan_too(federate: Federate) -> None:
    plan = plan_run(federate.run("out", "central"), TrainSettings(steps=7, batch_size=4), Silent())
    assert plan["estimate"]["optimiser_steps"] == 7
    assert plan["privacy"] is None
    assert not (federate.folder / "out").exists()

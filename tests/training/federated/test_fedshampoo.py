"""FedShampoo in whole runs, and what its frozen embeddings save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import nn

from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.progress import Silent
from pfl_audit.training.dry_run import plan_run
from pfl_audit.training.federated import local
from pfl_audit.training.federated.communication import summary
from pfl_audit.training.federated.settings import PrivacySettings
from pfl_audit.training.scratch import new_vt5
from pfl_audit.training.shampoo import Shampoo
from pfl_audit.training.trainable import Trainable, without_embeddings
from tests.training.federated.conftest import PRIVATE, QUICK, Federate

FEDSHAMPOO = replace(QUICK, optimizer="shampoo", freeze_embeddings=True, learning_rate=0.1)
TABLES = ("shared.", "embed_tokens.", "lm_head.", "relative_attention_bias.", "position_embeddings.")


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local trainings of two steps have a root at the second."""

    def make(name: str, parameters: Sequence[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
        assert name == "shampoo"
        return Shampoo(parameters, rate, statistics_every=1, roots_every=2)

    monkeypatch.setattr(local, "make_optimizer", make)


def base_vt5(*, tied: bool) -> Vt5:
    """A VT5 of the released sizes without memory, its visual encoder frozen."""
    with torch.device("meta"):
        network = new_vt5("base", 32128, seed=0)
        if not tied:
            network.language_backbone.lm_head.weight = nn.Parameter(torch.empty(32128, 768))
    network.visual_embedding.image_model.requires_grad_(False)
    return network


@pytest.mark.parametrize(
    ("tied", "whole", "frozen"),
    [(True, (225_659_136, 299_682_048), (199_411_200, 199_411_200)),
     (False, (250_333_440, 299_682_048), (224_085_504, 224_085_504))],
)  # fmt: skip
def test_numbers_of_a_message_counted_both_ways(tied: bool, whole: tuple[int, int], frozen: tuple[int, int]) -> None:
    """Each tensor once, and every name of a tied table as the papers count, with and without the embeddings."""
    network = base_vt5(tied=tied)
    for trainable, wanted in ((Trainable(network), whole), (without_embeddings(network), frozen)):
        assert (trainable.bytes_once, trainable.bytes_with_aliases) == (4 * wanted[0], 4 * wanted[1])


def test_the_papers_figures_are_those_of_an_output_layer_of_its_own() -> None:
    """12 messages of 3 rounds and 2 clients: 10.017 GiB, printed as 10.01 "GB", 25.2 % less; tied and once 11.6 %."""
    network = base_vt5(tied=False)
    before = Trainable(network)
    after = without_embeddings(network)
    sent = summary(12, after.bytes_once, after.bytes_with_aliases)["papers_way"]
    assert sent["GiB"] == 10.017
    assert 1 - after.bytes_with_aliases / before.bytes_with_aliases == pytest.approx(0.252, abs=5e-4)
    network = base_vt5(tied=True)
    once = Trainable(network).bytes_once
    assert 1 - without_embeddings(network).bytes_once / once == pytest.approx(0.116, abs=5e-4)


@pytest.mark.parametrize(("mode", "privacy"), [("fl", None), ("fl-dp", PRIVATE)])
@pytest.mark.parametrize("rank", [0, 2])
def test_embeddings_stay_and_are_not_sent(
    federate: Federate, mode: str, privacy: PrivacySettings | None, rank: int
) -> None:
    record = federate("out", mode, privacy, FEDSHAMPOO, lora=rank)
    before, after = load_vt5(federate.start).network.state_dict(), federate.weights("out")
    moved = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert moved
    assert not [name for name in moved if any(table in name for table in TABLES)]
    plain = plan_run(federate.run("plan", mode, lora=rank), QUICK, Silent(), privacy)["communication"]
    assert record["communication"]["bytes_a_message"] < plain["bytes_a_message"]


def test_runs_without_frozen_embeddings_have_the_identity_of_earlier_versions() -> None:
    assert "freeze_embeddings" not in QUICK.to_dict()
    assert FEDSHAMPOO.to_dict()["freeze_embeddings"] is True

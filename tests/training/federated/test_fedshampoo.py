"""FedShampoo in whole runs, and what its frozen embeddings save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.progress import Silent
from pfl_audit.training.dry_run import plan_run
from pfl_audit.training.federated import local
from pfl_audit.training.federated.communication import summary
from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.federated.optimizer_memory import FILES, OptimizerMemory
from pfl_audit.training.federated.settings import PrivacySettings
from pfl_audit.training.optimizers import Shampoo
from pfl_audit.training.scratch import new_vt5
from pfl_audit.training.trainable import Trainable, without_embeddings
from tests.training.federated.conftest import PRIVATE, QUICK, Federate, local_trainer

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


@pytest.mark.sampled(1)
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


@pytest.mark.slow
def test_a_client_goes_on_with_its_statistics_and_roots_and_repeats_a_round(federate: Federate, tmp_path: Path) -> None:
    trainer, queries = local_trainer(federate, FEDSHAMPOO, OptimizerMemory(tmp_path, "a run"))
    fresh, _ = local_trainer(federate, FEDSHAMPOO)
    rows, weights = range(min(8, len(queries))), trainer.trainable.read()

    def first(of: LocalTrainer, number: int, client: int = 0) -> torch.Tensor:
        return of.train(weights, rows, number, client)[0]

    assert torch.equal(first(trainer, 1), first(fresh, 1))  # line 1 of algorithm 1: identities
    second = first(trainer, 4)
    assert not torch.equal(second, first(fresh, 4))
    assert torch.equal(second, first(trainer, 4))  # after SIGKILL
    assert torch.equal(first(trainer, 4, client=1), first(fresh, 4, client=1))  # a state of its own
    first(trainer, 5)
    assert {path.name for path in tmp_path.glob("optimizer-0-*")} == {f"optimizer-0-{n}.safetensors" for n in (4, 5)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("mode", "privacy"), [("fl", None), ("fl-dp", PRIVATE)])
def test_states_of_clients_are_kept_without_privacy_alone_and_removed(
    federate: Federate, mode: str, privacy: PrivacySettings | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []
    save = OptimizerMemory.save

    def note(self: OptimizerMemory, number: int, client: int, state: dict[str, torch.Tensor]) -> None:
        save(self, number, client, state)
        saved.append(client)

    monkeypatch.setattr(OptimizerMemory, "save", note)
    federate("out", mode, privacy, FEDSHAMPOO, lora=2)
    assert bool(saved) == (privacy is None)
    assert not list((federate.folder / "out").glob(FILES))


def test_runs_without_frozen_embeddings_have_the_identity_of_earlier_versions() -> None:
    assert "freeze_embeddings" not in QUICK.to_dict()
    assert FEDSHAMPOO.to_dict()["freeze_embeddings"] is True

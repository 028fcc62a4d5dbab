"""Local trainings that share a pass give what the loop over them gives."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.vt5.training import open_training
from pfl_audit.progress import Silent
from pfl_audit.training.federated import partial
from pfl_audit.training.federated.clients import merged
from pfl_audit.training.federated.local import LocalTrainer
from pfl_audit.training.federated.settings import FederatedSettings
from pfl_audit.training.federated.together import Job
from pfl_audit.training.federated.worker_pool import WorkerPool
from pfl_audit.training.lora import Adapters
from pfl_audit.training.parts import split_queries
from tests.conftest import save_tiny_vt5
from tests.training.federated.conftest import FAST, PRIVATE, Federate, Make

SGD = replace(FAST, optimizer="sgd", learning_rate=0.1, batch_size=2, local_steps=3)
ONE_STEP = replace(SGD, batch_size=1, local_steps=1)


@pytest.fixture
def start(make_checkpoint: Make, tmp_path: Path) -> Path:
    """A tiny VT5 whose T5 has no dropout; its adapters and its positions have."""
    save_tiny_vt5(make_checkpoint(0), tmp_path / "start", 0, dropout=0.0)
    return tmp_path / "start"


def trainer_of(
    start: Path, corpus: Path, settings: FederatedSettings, parts: str, dtype: torch.dtype = torch.float64
) -> tuple[LocalTrainer, torch.Tensor, list[Job]]:
    """A trainer of adapters, weights whose both halves are away from zero, and a job of every provider.

    In float64, since AdamW makes whole steps of gradients that are nothing but rounding.
    """
    model = open_training(start)
    trainable = Adapters(model, 2, seed=0, parts=parts).trainable
    queries, _ = split_queries(open_corpus(corpus, "blue"))
    examples = model.examples(queries, Silent())
    model.network.to(dtype)
    jobs: list[Job] = [(rows, (1, 0, number)) for number, rows in enumerate(merged(queries)[0].providers)]
    jobs[1] = jobs[1][0][:1], jobs[1][1]
    weights = trainable.read()
    weights += 0.05 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(0))
    return LocalTrainer(model, trainable, examples, settings), weights, jobs


@pytest.mark.sampled(2)
@pytest.mark.parametrize("parts", ["all", "adapters", "up"])
@pytest.mark.parametrize(
    "settings",
    [
        ONE_STEP,
        SGD,
        replace(SGD, proximal=1.0),
        replace(SGD, optimizer="adamw", learning_rate=1e-3),
        replace(ONE_STEP, optimizer="adamw", learning_rate=1e-3),
        replace(SGD, optimizer="momentum", learning_rate=0.01, local_epochs=2, local_steps=None),  # 0.1 diverges
        replace(SGD, optimizer="shampoo"),
    ],
    ids=["one step", "sgd", "fedprox", "adamw", "adamw, one step", "momentum, all batches", "shampoo"],
)
def test_updates_are_those_of_the_loop(
    start: Path, corpus_folder: Path, settings: FederatedSettings, parts: str
) -> None:
    trainer, weights, jobs = trainer_of(start, corpus_folder, settings, parts)
    assert trainer.together == (1 if parts == "all" else 16 // settings.batch_size)
    most = 5 if settings.local_steps is None else None  # two batches and a smaller one, twice
    jobs = [(rows[:most], who) for rows, who in jobs[: trainer.together + 1]]  # a whole pass, and one more
    assert len({len(rows) for rows, _ in jobs}) > 1
    found = list(trainer.train_each(weights, jobs))
    for (update, loss), (rows, who) in zip(found, jobs, strict=True):
        wanted, wanted_loss = trainer.train(weights, rows, *who)
        assert float((update - wanted).norm()) < 1e-5 * float(wanted.norm())
        assert loss == pytest.approx(wanted_loss, rel=1e-6)


def test_float32_rounds_apart_by_less_than_the_bound(start: Path, corpus_folder: Path) -> None:
    trainer, weights, jobs = trainer_of(start, corpus_folder, ONE_STEP, "up", torch.float32)
    for (update, _), (rows, who) in zip(trainer.train_each(weights, jobs), jobs, strict=True):
        wanted, _ = trainer.train(weights, rows, *who)
        assert float((update - wanted).norm()) < 1e-4 * float(wanted.norm())


def test_a_loss_that_is_not_finite_spoils_no_other_update(start: Path, corpus_folder: Path) -> None:
    trainer, weights, jobs = trainer_of(start, corpus_folder, SGD, "up")
    clean = list(trainer.train_each(weights, jobs[:4]))
    loss = trainer.examples._model.owner_losses  # type: ignore[attr-defined]

    def spoiled(examples: Sequence[Any], pages: torch.Tensor, *rest: Any) -> torch.Tensor:
        if len(examples) == 4:
            pages = pages.clone()
            pages[len(examples[0])] = torch.nan  # the first page of the second provider
        return loss(examples, pages, *rest)

    trainer.examples._model.owner_losses = spoiled  # type: ignore[attr-defined]
    found = list(trainer.train_each(weights, jobs[:4]))
    assert bool(found[1][0].isnan().all())
    for at in (0, 2, 3):
        assert float((found[at][0] - clean[at][0]).norm()) < 1e-6 * float(clean[at][0].norm())


def test_a_pool_gives_what_one_process_gives(start: Path, corpus_folder: Path) -> None:
    trainer, weights, jobs = trainer_of(start, corpus_folder, ONE_STEP, "up", torch.float32)
    alone = list(trainer.train_each(weights, jobs * 2))
    for (update, loss), (wanted, wanted_loss) in zip(
        WorkerPool(trainer, 2).train_each(weights, jobs * 2), alone, strict=True
    ):
        assert torch.equal(update, wanted)
        assert loss == wanted_loss


@pytest.mark.slow
def test_a_round_that_was_cut_within_a_pass_ends_the_same(
    start: Path, corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federate = Federate(corpus_folder, start, tmp_path)
    settings = replace(ONE_STEP, rounds=2, validation_queries=4, lora_parts="up")
    federate("whole", "central-dp", PRIVATE, settings, lora=2)
    monkeypatch.setattr(partial.Partial.__init__, "__defaults__", (0.0,))

    class CutError(Exception):
        pass

    save, saves = partial.Partial.save, []

    def stop(self: partial.Partial, *arguments: Any) -> None:
        save(self, *arguments)
        saves.append(arguments)
        if len(saves) % 3 == 0:
            raise CutError

    monkeypatch.setattr(partial.Partial, "save", stop)
    cuts = 0
    while True:
        try:
            federate("cut", "central-dp", PRIVATE, settings, lora=2, ledger=tmp_path / "cut.ledger.json")
            break
        except CutError:
            cuts += 1
    assert cuts
    whole, cut = federate.weights("whole"), federate.weights("cut")
    assert all(torch.equal(cut[name], tensor) for name, tensor in whole.items())

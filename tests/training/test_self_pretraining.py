"""Self-pretraining in the one training loop: central, federated, private, cut and continued."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import UsageError
from pfl_audit.models.pretraining import SelfPretraining, one_a_page
from pfl_audit.models.pretraining_task import Form, Task
from pfl_audit.models.self_pretraining import MARKERS, MOST_MASKED, Marker, marker
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.training import open_training
from pfl_audit.progress import Silent
from pfl_audit.training.central import train_central
from pfl_audit.training.federated.phases import train_federated
from pfl_audit.training.federated.run import Federation
from pfl_audit.training.federated.settings import FederatedSettings, Mode, PrivacySettings
from pfl_audit.training.loop import STATE_FILE
from pfl_audit.training.parts import split_queries
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.start import Training
from pfl_audit.training.trainable import choose_trainable
from tests.conftest import ROWS
from tests.models.donut.conftest import make_donut

__all__ = ["make_donut"]
Make = Callable[[int], Path]
SHORT = TrainSettings(
    steps=4, batch_size=4, learning_rate=1e-3, warmup=1, save_every=2, validate_every=3, validation_queries=4
)
ROUNDS = FederatedSettings(
    rounds=2, batch_size=4, local_steps=2, learning_rate=1e-3, validate_every=1, validation_queries=4
)
PRIVATE = PrivacySettings(
    provider_rate=0.6, clip=0.1, noise_multiplier=0.8, epsilon=None, noise_seed=1, public_providers=10
)


@pytest.fixture(scope="module")
def blue(corpus_folder: Path) -> Corpus:
    return open_corpus(corpus_folder, "blue")


def shortened(queries: list[Query]) -> list[Query]:
    cut = [(query, query.document) for query in queries]
    return [replace(query, document=replace(page, words=page.words[:20], boxes=page.boxes[:20])) for query, page in cut]


@pytest.fixture(scope="module")
def pages(blue: Corpus) -> tuple[list[Query], list[Query]]:
    """Pages of 20 words, to train on and held out."""
    train, valid = split_queries(blue)
    return shortened(one_a_page(train)[:16]), shortened(one_a_page(valid)[:6])


@pytest.fixture
def start(make_checkpoint: Make) -> Path:
    return make_checkpoint(0)


def opened(start: Path, *tasks: Task, form: Form = Form.PAPER) -> SelfPretraining:
    return SelfPretraining(open_training(start), tasks or tuple(Task), form)


class Cut(Silent):
    def say(self, text: str) -> None:
        raise KeyboardInterrupt


Pages = tuple[list[Query], list[Query]]


def central(start: Path, out: Path, pages: Pages, progress: Silent | None = None) -> dict[str, torch.Tensor]:
    model = opened(start)
    state = train_central(Training(model, choose_trainable(model), *pages, progress or Silent()), SHORT, out, {})
    assert set(state.history[-1]) == {"step", "loss", "loss_tm", "loss_lm", "loss_tlm"}
    model.save(out, {}, half=False)
    return dict(load_vt5(out).network.state_dict())


def test_a_page_is_taken_once(blue: Corpus) -> None:
    pages = one_a_page(blue.queries)
    assert len(pages) == len(blue.documents) == len({query.document.id for query in pages}) < len(blue.queries)


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("task", Task)
def test_inputs_fit_the_network_and_hold_sentinels(task: Task, form: Form, start: Path, blue: Corpus) -> None:
    model, whole = opened(start, task, form=form), one_a_page(blue.queries)[:2]
    with torch.no_grad():
        assert torch.isfinite(model.examples(whole, Silent()).loss([0, 1]))
    kind = {Task.TEXT: Marker.TEXT, Task.LAYOUT: Marker.LAYOUT, Task.TEXT_LAYOUT: Marker.TEXT_LAYOUT}[task]
    first = ROWS + marker(kind, 0)
    made = model._example(whole[0], task, np.random.default_rng(0)).tensors
    for name in ("ids", "labels"):
        assert ((made[name] >= first) & (made[name] < first + MOST_MASKED)).any()
        assert made[name][-1] == 1
    assert (made["boxes"][made["ids"] >= ROWS] == 0).all()
    assert len(made["ids"]) <= 512
    assert len(made["labels"]) <= 256


def test_the_loss_is_the_mean_of_the_tasks(start: Path, pages: Pages) -> None:
    model = opened(start)
    examples = model.examples(pages[0], Silent())
    examples.reseed(5)
    rng, rows = np.random.default_rng(5), [0, 2]
    queries = [pages[0][row] for row in rows]
    with torch.no_grad():
        alone = [float(model.loss(queries, examples._pages(rows), task, rng)) for task in Task]
        assert float(examples.loss(rows)) == pytest.approx(sum(alone) / 3)
        assert float(examples.loss(rows)) != pytest.approx(sum(alone) / 3)  # other masks
        shares = 0.0
        for part in ([0], [1]):  # of two processes, each of which draws the masks of the whole batch
            examples.reseed(5)
            shares += float(examples.part_loss(rows, part))
        assert shares == pytest.approx(sum(alone) / 3)


@pytest.mark.slow
def test_central_training_that_was_cut_ends_with_the_same_weights(start: Path, pages: Pages, tmp_path: Path) -> None:
    whole = central(start, tmp_path / "whole", pages)
    with pytest.raises(KeyboardInterrupt):
        central(start, tmp_path / "cut", pages, Cut())
    assert (tmp_path / "cut" / STATE_FILE).is_file()
    resumed = central(start, tmp_path / "cut", pages)
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in whole.items())
    embedding = "language_backbone.shared.weight"
    assert len(whole[embedding]) == ROWS + len(MARKERS)
    assert not torch.equal(whole[embedding][:ROWS], load_vt5(start).network.state_dict()[embedding])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("mode", "strategy", "privacy"),
    [("fl", "fedavg", None), ("fl", "fedadam", None), ("fl-dp", "fedadam", PRIVATE), ("central-dp", "fedavg", PRIVATE)],
)
def test_federated_training_moves_the_model(
    mode: Mode, strategy: str, privacy: PrivacySettings | None, start: Path, pages: Pages, tmp_path: Path
) -> None:
    model = opened(start)
    trainable = choose_trainable(model)
    before = trainable.read()
    out = tmp_path / "out"
    out.mkdir()
    federation = Federation(mode, replace(ROUNDS, strategy=strategy), privacy, out, {"data": "0" * 64})
    record = train_federated(federation, Training(model, trainable, *pages, Silent()))
    assert (record["privacy"] is None) == (privacy is None)
    assert "loss_tlm" in record["history"][-1]
    assert not torch.equal(before, trainable.read())


def test_longer_training_lowers_the_held_out_loss(start: Path, pages: Pages, tmp_path: Path) -> None:
    model = opened(start, Task.TEXT)
    before = model.validate(pages[1])["loss_tm"]
    settings = replace(SHORT, steps=30, learning_rate=5e-3, validate_every=30, save_every=30)
    train_central(Training(model, choose_trainable(model), *pages, Silent()), settings, tmp_path, {})
    assert model.validate(pages[1])["loss_tm"] < 0.9 * before


def test_a_family_without_it_says_so(make_donut: Callable[[str], Path]) -> None:
    from pfl_audit.models.open import family_of
    from pfl_audit.models.training_protocol import TrainableFamily

    folder = make_donut("ours")
    family = family_of(folder)
    assert isinstance(family, TrainableFamily)
    with pytest.raises(UsageError, match="no self-pretraining"):
        SelfPretraining(family.open_training(folder, device="cpu", train_visual=False), [Task.TEXT])


def test_no_task_is_refused(start: Path) -> None:
    with pytest.raises(UsageError, match="no task"):
        SelfPretraining(open_training(start), [])

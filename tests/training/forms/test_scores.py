from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from pfl_audit.documents.forms.form import FormCorpus
from pfl_audit.models.encoders.batch import FormBatch
from pfl_audit.models.encoders.kinds import FormTask
from pfl_audit.models.encoders.network import FormEncoder, Logits
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.encoders.vocabulary import train_vocabulary
from pfl_audit.models.form_protocol import Window
from pfl_audit.models.samples import IGNORED
from pfl_audit.training.batching import BatchOrder
from pfl_audit.training.forms.begin import new_encoder
from pfl_audit.training.forms.model import ExampleMaker
from pfl_audit.training.forms.scores import Counts, bio_fields, score, spade_fields
from pfl_audit.training.forms.settings import FormTrainSettings

TASKS: list[FormTask] = ["mlm", "ee-bio", "ee-spade", "el"]


def prepared(task: FormTask, forms: FormCorpus) -> tuple[FormEncoder, list[Window], FormBatch]:
    words = [word for form in forms.forms for word in form.document.words]
    tokenizer = FormTokenizer(train_vocabulary(words, 300))
    labels = forms.labels if task.startswith("ee") else ()
    network = new_encoder(FormTrainSettings(task=task, size="tiny"), labels, len(tokenizer.vocabulary)).eval()
    maker = ExampleMaker(network.config, tokenizer)
    windows = maker.windows(forms.forms[:3])
    return network, windows, maker.batch(windows, torch.Generator().manual_seed(1))


def test_bio_tags_name_fields() -> None:
    tags = ["O", "B-a", "I-a", "B-a", "I-b", "I-b", "O", "I-a", "B-b"]
    assert bio_fields(tags) == {("a", (1, 2)), ("a", (3,)), ("b", (4, 5)), ("a", (7,)), ("b", (8,))}
    assert bio_fields(["O", "O"]) == set()


def test_a_label_with_a_hyphen_is_one_label() -> None:
    assert bio_fields(["B-a-b", "I-a-b", "I-a"]) == {("a-b", (0, 1)), ("a", (2,))}


def test_pointers_to_predecessors_name_fields() -> None:
    nowhere = 9
    tags = ["O", "a", "O", "O", "b", "O"]
    assert spade_fields(tags, [IGNORED, nowhere, 1, 2, nowhere, nowhere]) == {("a", (1, 2, 3)), ("b", (4,))}
    assert spade_fields(tags, [IGNORED, nowhere, 1, 1, nowhere, 4]) == {("a", (1, 2)), ("b", (4, 5))}


@given(st.lists(st.tuples(st.sampled_from(["O", "a"]), st.integers(-1, 6)), max_size=6))
def test_pointers_that_run_in_circles_end(tokens: list[tuple[str, int]]) -> None:
    fields = spade_fields([tag for tag, _ in tokens], [pointer for _, pointer in tokens])
    assert len(fields) <= sum(tag == "a" for tag, _ in tokens)
    assert all(len(set(field)) == len(field) for _, field in fields)


def test_f1_is_accuracy_where_everything_is_asked() -> None:
    assert Counts(3, 4, 4).f1 == 0.75
    assert Counts(2, 2, 6).f1 == pytest.approx(2 * 1.0 * (1 / 3) / (1 + 1 / 3))
    assert Counts().f1 == 0.0


@pytest.mark.parametrize("task", TASKS)
def test_losses_are_those_of_training(task: FormTask, forms: FormCorpus) -> None:
    network, windows, batch = prepared(task, forms)
    losses, counts = score(network, batch)
    assert losses == pytest.approx(network.loss(batch).tolist(), abs=1e-5)
    assert len(losses) == len(windows)
    assert counts.right <= min(counts.found, counts.there)


@pytest.mark.parametrize("task", TASKS[1:])
def test_who_knows_everything_scores_one_and_who_says_nothing_scores_none(task: FormTask, forms: FormCorpus) -> None:
    network, windows, batch = prepared(task, forms)
    nowhere = batch.ids.shape[1]

    def saying(labels: torch.Tensor | None, nothing: int, count: int, *, knows: bool) -> torch.Tensor | None:
        if labels is None:
            return None
        told = labels.masked_fill(labels == IGNORED, nothing) if knows else torch.full_like(labels, nothing)
        return functional.one_hot(told, count).float() * 9

    def somebody(*, knows: bool) -> FormEncoder:
        classes = saying(batch.classes, 0, len(network.config.tags), knows=knows)
        pointers = saying(batch.pointers, nowhere, nowhere + 1, knows=knows)

        class Somebody(SimpleNamespace):
            def __call__(self, batch: FormBatch) -> Logits:
                return Logits(classes, pointers)

        return Somebody(config=network.config)  # type: ignore[return-value]

    there = sum(len(window.spans) for window in windows)
    if task == "el":
        there = sum(len({answer for _, answer in window.form.links}) for window in windows)
    _, perfect = score(somebody(knows=True), batch)
    assert perfect == Counts(there, there, there)
    _, silent = score(somebody(knows=False), batch)
    assert silent == Counts(0, 0, there)


def deal(lengths: list[int], size: int, seed: int, epoch: int) -> list[list[int]]:
    order = BatchOrder(lengths, size, seed, pool=4)
    return [order(epoch * order.epoch_steps + place) for place in range(order.epoch_steps)]


@given(st.lists(st.integers(3, 512), min_size=1, max_size=60), st.integers(1, 9), st.integers(0, 5), st.integers(0, 5))
def test_an_epoch_deals_every_window_once(lengths: list[int], size: int, seed: int, epoch: int) -> None:
    batches = deal(lengths, size, seed, epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // size)
    assert batches == deal(lengths, size, seed, epoch)


def test_epochs_and_seeds_deal_differently() -> None:
    lengths = [10] * 64
    assert len({str(deal(lengths, 8, seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9

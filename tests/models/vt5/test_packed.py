"""The loss on packed tokens is that of transformers' own T5 on a padded batch, with all of its gradients."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.vt5.packed import can_pack
from pfl_audit.models.vt5.training import TrainableVt5, open_training
from pfl_audit.training.loop import set_training
from pfl_audit.training.lora import Adapters
from pfl_audit.training.parts import split_queries
from pfl_audit.training.trainable import Trainable, choose_trainable
from tests.conftest import save_tiny_vt5


@pytest.fixture
def model(make_checkpoint: Callable[[int], Path], tmp_path: Path) -> Iterator[TrainableVt5]:
    """A tiny VT5 in float64 whose T5 has no dropout."""
    save_tiny_vt5(make_checkpoint(0), tmp_path / "start", 0, dropout=0.0)
    opened = open_training(tmp_path / "start")
    yield opened
    opened.forget_pages()


def adapted(model: TrainableVt5, parts: str) -> Trainable:
    """Adapters whose both halves are away from zero; whole tensors without ``parts``."""
    if not parts:
        return choose_trainable(model)
    trainable = Adapters(model, 2, seed=0, parts=parts).trainable
    for parameter in trainable.parameters:
        nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(parameter.numel()))
    return trainable


@pytest.mark.parametrize("parts", ["", "all", "adapters", "up"])
def test_loss_and_gradients_are_those_of_a_padded_batch(model: TrainableVt5, corpus_folder: Path, parts: str) -> None:
    trainable = adapted(model, parts)
    queries = split_queries(open_corpus(corpus_folder, "blue"))[0][:20:4]
    examples = [model.example(query) for query in queries]
    assert len({example.length for example in examples}) > 1
    pages = model.page_features(torch.stack([model.page(query.document) for query in queries])).detach()
    model.network.double().eval()
    found, wanted = (
        (loss.detach(), torch.autograd.grad(loss, trainable.parameters))
        for loss in (model.batch_loss(examples, pages), model.padded_loss(examples, pages))
    )
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-7, atol=0)  # T5's norm has its mean square in float32
    for name, one, other in zip(trainable.names, found[1], wanted[1], strict=True):
        assert float((one - other).norm()) < 1e-5 * float(other.norm()), name
    assert all(bool(gradient.any()) for gradient in wanted[1])


def test_one_example_has_the_dropout_of_a_padded_batch(model: TrainableVt5, corpus_folder: Path) -> None:
    adapted(model, "up")
    set_training(model.network, model.page_encoder)
    query = split_queries(open_corpus(corpus_folder, "blue"))[0][0]
    page = model.page_features(model.page(query.document)[None]).detach()
    losses = []
    for way in (model.batch_loss, model.padded_loss):
        torch.manual_seed(0)
        losses += [float(way([model.example(query)], page).detach()) for _ in range(2)]
    assert losses[:2] == pytest.approx(losses[2:], rel=1e-5)
    assert losses[0] != losses[1]


def test_dropout_within_the_t5_is_computed_on_a_padded_batch(
    model: TrainableVt5, make_checkpoint: Callable[[int], Path]
) -> None:
    assert can_pack(model.network)
    assert not can_pack(open_training(make_checkpoint(0)).network)

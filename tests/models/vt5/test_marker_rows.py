"""Rows of added tokens beside frozen tables, against a network whose tables are trained whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from pfl_audit.documents.corpus import Corpus
from pfl_audit.models.pretraining import SelfPretraining, one_a_page
from pfl_audit.models.pretraining_task import Task
from pfl_audit.models.self_pretraining import MARKERS
from pfl_audit.models.training_protocol import INPUT_ROWS
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.marker_rows import MarkerRows
from pfl_audit.models.vt5.training import TrainableVt5
from pfl_audit.progress import Silent
from pfl_audit.training.trainable import Trainable, without_embeddings
from tests.conftest import ROWS

Make = Callable[[int], Path]


def opened(start: Path, *, tied: bool) -> SelfPretraining:
    loaded = load_vt5(start)
    backbone = loaded.network.language_backbone
    if not tied:
        backbone.lm_head.weight = nn.Parameter(2 * backbone.lm_head.weight.detach())
    return SelfPretraining(TrainableVt5(loaded, start), tuple(Task))


def gradients(model: SelfPretraining, red: Corpus) -> tuple[float, dict[str, torch.Tensor]]:
    examples = model.examples(one_a_page(red.queries)[:2], Silent())
    examples.reseed(1)
    model.network.eval()
    loss = examples.loss([0, 1])
    if loss.requires_grad:
        torch.autograd.backward(loss)
    return float(loss.detach()), {n: p.grad for n, p in model.network.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("tied", [True, False])
def test_loss_and_gradients_are_those_of_whole_tables(tied: bool, make_checkpoint: Make, red: Corpus) -> None:
    whole, rows = (opened(make_checkpoint(0), tied=tied) for _ in range(2))
    wanted, full = gradients(whole, red)
    rows.network.requires_grad_(False)
    rows.train_markers()
    rows.train_markers()  # the second call does nothing
    found, own = gradients(rows, red)
    assert found == pytest.approx(wanted, rel=1e-6)
    assert set(own) == {"marker_rows.rows"}
    tables = ["language_backbone.shared.weight", *([] if tied else ["language_backbone.lm_head.weight"])]
    expected = torch.stack([full[name][ROWS:] for name in tables])
    assert expected.abs().max() > 1e-4
    torch.testing.assert_close(own["marker_rows.rows"], expected, rtol=1e-4, atol=1e-7)
    assert Trainable(rows.network).size == len(tables) * len(MARKERS) * 32


@pytest.mark.parametrize("tied", [True, False])
def test_a_checkpoint_has_the_trained_rows_in_its_tables(
    tied: bool, make_checkpoint: Make, red: Corpus, tmp_path: Path
) -> None:
    model = opened(make_checkpoint(0), tied=tied)
    before = {name: tensor.clone() for name, tensor in model.network.state_dict().items()}
    model.network.requires_grad_(False)
    model.train_markers()
    trained = Trainable(model.network)
    trained.write(trained.read() + 0.5)
    wanted, _ = gradients(model, red)
    model.save(tmp_path / "out", {}, half=False)
    assert before.keys() == model.network.state_dict().keys()
    assert gradients(model, red)[0] == pytest.approx(wanted, rel=1e-6)
    for name, tensor in load_vt5(tmp_path / "out").network.state_dict().items():
        table = len(tensor) == ROWS + len(MARKERS)
        torch.testing.assert_close(tensor[:ROWS] if table else tensor, before[name][:ROWS] if table else before[name])
        if table:
            torch.testing.assert_close(tensor[ROWS:], before[name][ROWS:] + 0.5)


def test_a_trained_embedding_needs_no_rows(make_checkpoint: Make) -> None:
    model = opened(make_checkpoint(0), tied=True)
    model.train_markers()
    assert not any(isinstance(module, MarkerRows) for module in model.network.modules())


def test_an_output_layer_of_its_own_is_trained_whole_beside_frozen_embeddings(
    make_checkpoint: Make, red: Corpus
) -> None:
    model = opened(make_checkpoint(0), tied=False)
    without_embeddings(model.network)
    model.train_markers()
    _, found = gradients(model, red)
    assert found[f"{INPUT_ROWS}.rows"].shape == (1, len(MARKERS), 32)
    assert found["language_backbone.lm_head.weight"][ROWS:].any()
    trainable = Trainable(model.network)
    assert [name for name, late in zip(trainable.names, trainable.late.tolist(), strict=True) if late] == [
        f"{INPUT_ROWS}.rows"
    ]

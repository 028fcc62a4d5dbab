from dataclasses import replace

import numpy as np
import pytest
import torch

from pfl_audit.documents.forms.form import Form
from pfl_audit.models.encoders.batch import FormBatch, collate
from pfl_audit.models.encoders.checkpoint import LoadedEncoder
from pfl_audit.models.encoders.losses import window_hits, window_means
from pfl_audit.models.samples import IGNORED
from pfl_audit.training.forms.model import ExampleMaker
from tests.models.encoders.makers import config, encoder, form, page_file, tokenizer
from tests.oracles import encoders as oracle

BACKBONES = ("layoutlm", "bros", "bert")
TASKS = ("mlm", "ee-bio", "ee-spade", "el")


def labelled(loaded: LoadedEncoder, forms: list[Form], max_tokens: int = 40) -> tuple[FormBatch, list[FormBatch]]:
    """All windows of forms in one batch, and each alone; masked alike."""
    made = replace(loaded.config, max_tokens=max_tokens)
    maker = ExampleMaker(made, loaded.tokenizer)
    windows = maker.windows(forms)
    together = maker.batch(windows, torch.Generator().manual_seed(1))
    chance = torch.Generator().manual_seed(1)
    return together, [maker.batch([window], chance) for window in windows]


@pytest.mark.parametrize("modality", ["unimodal", "bimodal"])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_loss_of_a_window_does_not_depend_on_its_company(backbone, task, modality, tmp_path) -> None:
    loaded = encoder(backbone, task, modality)
    forms = [form("d_1", page_file(tmp_path, 0)), form("d_2", page_file(tmp_path, 1), extra=7)]
    together, alone = labelled(loaded, forms, 17)
    with torch.no_grad():
        losses = loaded.network.loss(together)
        one_by_one = torch.cat([loaded.network.loss(batch) for batch in alone])
    assert losses.shape == (len(alone),)
    assert together.mask.sum(dim=1).min() < together.mask.shape[1], "there is padding"
    torch.testing.assert_close(losses, one_by_one, rtol=2e-4, atol=2e-5)
    assert losses.std() > 1e-3


@pytest.mark.parametrize("task", TASKS)
def test_the_loss_is_the_mean_cross_entropy_of_labelled_tokens(task: str) -> None:
    loaded = encoder("layoutlm", task)
    batch, _ = labelled(loaded, [form(), form("d_2", extra=5)], 17)
    with torch.no_grad():
        losses, said = loaded.network.loss(batch), loaded.network(batch)
    expected = [0.0] * len(batch)
    for logits, labels in ((said.classes, batch.classes), (said.pointers, batch.pointers)):
        for row in range(len(batch) if labels is not None else 0):
            tokens = [token for token, label in enumerate(labels[row].tolist()) if label != IGNORED]
            parts = [oracle.cross_entropy(logits[row, token].tolist(), int(labels[row, token])) for token in tokens]
            expected[row] += sum(parts) / max(1, len(parts))
    np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-4)


@pytest.mark.parametrize("task", ["ee-spade", "el"])
def test_nothing_points_to_padding_or_to_itself(task: str) -> None:
    loaded = encoder("bert", task)
    batch, _ = labelled(loaded, [form(), form("d_2", extra=8)])
    with torch.no_grad():
        pointers = loaded.network(batch).pointers.softmax(dim=-1)
    rows, tokens = batch.ids.shape
    assert pointers.shape == (rows, tokens, tokens + 1)
    assert (pointers.diagonal(dim1=1, dim2=2)[batch.mask] == 0).all()
    barred = ~batch.mask if batch.targets is None else ~batch.targets
    assert pointers[:, :, :-1].transpose(1, 2)[barred].max() == 0
    assert pointers[:, :, -1].min() > 0, "nowhere is always there"
    lengths = batch.mask.sum(dim=1).tolist()
    assert lengths[0] < lengths[1]
    assert batch.pointers is not None
    assert (batch.pointers[0, :19] == tokens).any(), "nowhere is the last column of the padded batch"


def test_a_window_without_labelled_tokens_has_no_loss() -> None:
    labels = torch.tensor([[1, IGNORED, 0], [IGNORED] * 3])
    logits = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    means = window_means(logits, labels)
    assert means[0] == pytest.approx((oracle.cross_entropy([0, 2], 1) + oracle.cross_entropy([0, 0], 0)) / 2)
    assert means[1] == 0


def test_hits_by_hand() -> None:
    labels = torch.tensor([[0, 0, 1, 2, IGNORED], [IGNORED, 1, IGNORED, IGNORED, IGNORED]])
    said = torch.nn.functional.one_hot(torch.tensor([0, 1, 1, 0, 2]), 3).float()
    assert window_hits(said, labels, None).tolist() == [[2, 4], [0, 1]]
    assert window_hits(said, labels, 0).tolist() == [[1, 3], [0, 1]]


def test_a_batch_without_labels_has_no_loss() -> None:
    loaded = encoder("bert", "el")
    with pytest.raises(ValueError, match="no labels"):
        loaded.network.loss(collate(tokenizer().windows(form(), 40)))


def test_bros_shares_geometry_among_rows_with_the_same_boxes() -> None:
    loaded = encoder("bros", "mlm")
    network = loaded.network
    with torch.no_grad():
        network.get_parameter("bros.bbox_embeddings.bbox_projection.weight").mul_(30)
    (window,) = tokenizer().windows(form(), 40)
    (other,) = tokenizer().windows(form(), 40)
    moved = replace(other, boxes=other.boxes[::-1].copy())
    ids = [np.roll(window.ids, shift) for shift in range(4)]
    with torch.no_grad():
        shared = network(collate([window] * 4, ids=ids)).classes
        apart = network(collate([*[window] * 4, moved], ids=[*ids, window.ids])).classes
        alone = torch.cat([network(collate([window], ids=[row])).classes for row in ids])
    torch.testing.assert_close(shared, alone, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(apart[:4], alone, rtol=1e-4, atol=1e-4)
    assert (apart[4] - apart[0]).abs().max() > 0.01, "boxes have a say"


@pytest.mark.parametrize(("backbone", "matters"), [("layoutlm", True), ("bros", True), ("bert", False)])
def test_bert_alone_does_not_see_boxes(backbone: str, *, matters: bool) -> None:
    network = encoder(backbone, "mlm").network
    (window,) = tokenizer().windows(form(), 40)
    with torch.no_grad():
        here = network(collate([window])).classes
        there = network(collate([replace(window, boxes=window.boxes[::-1].copy())])).classes
    assert bool((here - there).abs().max() > 1e-4) is matters


def test_what_is_seen_is_added_to_the_words_and_shared_by_windows(tmp_path) -> None:
    loaded = encoder("layoutlm", "mlm", "bimodal")
    network = loaded.network
    windows = tokenizer().windows(form(image=page_file(tmp_path)), 10)
    pixels = ExampleMaker(loaded.config, loaded.tokenizer).batch(windows, torch.Generator()).pixels
    assert pixels is not None
    assert len(pixels) == 1, "one page, however many windows"
    with torch.no_grad():
        features = network.page(pixels)
        by_pixels = network(collate(windows, pixels=pixels)).classes
        by_features = network(collate(windows, features=features)).classes
        torch.testing.assert_close(by_pixels, by_features)
        other = network(collate(windows, pixels=torch.zeros_like(pixels))).classes
        assert (other - by_pixels).abs().max() > 1e-3
        network.visual.projection.weight.zero_()
        network.visual.projection.bias.zero_()
        blind = network(collate(windows, pixels=pixels)).classes
        text = encoder("layoutlm", "mlm").network
        text.load_state_dict(network.state_dict(), strict=False)
        torch.testing.assert_close(blind, text(collate(windows)).classes)
    with pytest.raises(ValueError, match="needs pixels or features"):
        network(collate(windows))
    with pytest.raises(ValueError, match="unimodal"):
        text.page(pixels)


def test_gradients_reach_every_parameter(tmp_path) -> None:
    for backbone in BACKBONES:
        for task in TASKS:
            loaded = encoder(backbone, task, "bimodal")
            batch, _ = labelled(loaded, [form(image=page_file(tmp_path))])
            loaded.network.train()
            loaded.network.loss(batch).mean().backward()
            idle = {name for name, tensor in loaded.network.named_parameters() if tensor.grad is None}
            assert not idle, (backbone, task, idle)


def test_sizes_of_windows_follow_the_settings() -> None:
    made = config("bert", "ee-bio", max_tokens=10)
    windows = ExampleMaker(made, tokenizer()).windows([form(), form("d_2")])
    assert [len(window.ids) for window in windows] == [8, 9, 7, 8, 9, 7]
    with pytest.raises(ValueError, match="needs a generator"):
        ExampleMaker(config("bert", "mlm"), tokenizer()).batch(windows)

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from pfl_audit.errors import NotAuditableError
from pfl_audit.models.donut.gradients import DonutGradients, place
from pfl_audit.models.donut.model import DonutModel
from pfl_audit.models.donut.pixels import PixelSettings
from pfl_audit.models.gradient_protocol import gradient_of
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.samples import Sample
from tests.models.gradient_checks import mean_of_samples, second_derivatives_agree

Make = Callable[[str], Path]
PAGE = np.random.default_rng(0).integers(0, 256, (70, 60, 3), dtype=np.uint8)
ASKED = Sample("What is the total?", "12.50")
LONGER = Sample("Who sent it?", "a company with a long name")


def pixels_of(model: DonutGradients, page: NDArray[np.uint8] = PAGE) -> torch.Tensor:
    seen = model.see(Image.fromarray(np.ascontiguousarray(page)))
    return torch.from_numpy(seen).permute(2, 0, 1).float() / 255


def test_the_loss_is_transformers_own(make_donut: Make) -> None:
    for kind in ("ours", "theirs"):
        model = open_gradient_model(str(make_donut(kind)))
        assert isinstance(model, DonutGradients)
        text = model.text(ASKED)
        pixels = pixels_of(model)[None]
        mean, std = (torch.tensor(some).view(3, 1, 1) for some in (model._pixels.mean, model._pixels.std))
        features = model.network.encoder(pixel_values=(pixels - mean) / std)
        out = model.network(
            encoder_outputs=features, decoder_input_ids=text["decoder_input_ids"][None], labels=text["labels"][None]
        )
        assert model.loss(pixels, [text]).item() == pytest.approx(out.loss.item(), rel=1e-5)


def test_what_it_sees_is_what_it_normalises(make_donut: Make) -> None:
    for kind in ("ours", "theirs"):
        model = DonutGradients(make_donut(kind))
        for size in ((60, 70), (200, 31), (31, 200), (48, 64)):
            page = Image.fromarray(PAGE).resize(size)
            seen = model.see(page)
            assert (seen.dtype, seen.shape) == (np.uint8, (*model.page, 3))
            normal = (seen / 255 - model._pixels.mean) / model._pixels.std
            assert np.abs(normal.transpose(2, 0, 1) - model._pixels.pixels(page).numpy()).max() < 1e-5


@settings(max_examples=60, deadline=None)
@given(
    page=st.tuples(st.integers(24, 90), st.integers(24, 90)),
    size=st.tuples(st.integers(24, 300), st.integers(24, 300)),
    turn=st.booleans(),
)
def test_a_box_is_followed_to_where_it_is_seen(page: tuple[int, int], size: tuple[int, int], turn: bool) -> None:
    """A white box in black paper, wherever it is scaled, turned or padded to."""
    width, height = size
    told = PixelSettings(page, turn, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), resample=int(Image.Resampling.NEAREST))
    window = (width // 4, height // 3, width - width // 5, height - height // 6)
    paper = Image.new("RGB", size, (0, 0, 0))
    paper.paste((255, 255, 255), window)
    seen = told.pixels(paper)[0].numpy() > 0.5
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    box = (window[0] / width, window[1] / height, window[2] / width, window[3] / height)
    left, top, right, bottom = place(told, box, size)
    found = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    expected = (left * page[1], top * page[0], right * page[1], bottom * page[0])
    assert np.abs(np.array(found) - expected).max() <= 1.01


def test_a_batch_is_the_mean_of_its_samples(make_donut: Make) -> None:
    model = DonutGradients(make_donut("ours"))
    texts = [model.text(ASKED), model.text(LONGER)]
    assert len(texts[0]["labels"]) != len(texts[1]["labels"])
    pixels = torch.stack([pixels_of(model), pixels_of(model, PAGE[::-1])])
    assert mean_of_samples(model, pixels, texts) < 1e-3


def test_second_derivatives(make_donut: Make) -> None:
    model = DonutGradients(make_donut("ours"))
    assert second_derivatives_agree(model, pixels_of(model)[None], [model.text(ASKED)])


def test_its_fingerprint_is_its_own(make_donut: Make) -> None:
    model = DonutGradients(make_donut("ours"))
    assert model.fingerprint == DonutGradients(make_donut("ours")).fingerprint
    assert model.fingerprint == model.describe()["sha256"] != DonutModel(make_donut("ours")).fingerprint
    assert not model.network.training


def test_the_gradient_names_the_networks_parameters_once(make_donut: Make) -> None:
    model = DonutGradients(make_donut("ours"))
    found = gradient_of(model, pixels_of(model)[None], [model.text(ASKED)])
    own = dict(model.network.named_parameters())
    assert "decoder.lm_head.weight" not in own
    assert {name: part.shape for name, part in found.items()} == {name: own[name].shape for name in found}
    assert "decoder.model.decoder.embed_tokens.weight" in found
    assert "encoder.embeddings.patch_embeddings.projection.weight" in found


def test_a_family_without_gradients(make_checkpoint: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain:
        name = "plain"

    monkeypatch.setattr("pfl_audit.models.open.family_of", lambda _: Plain())
    message = "is a plain checkpoint, .* no training gradient. .* does: donut, layoutlm, layoutlmv3, vt5"
    with pytest.raises(NotAuditableError, match=message):
        open_gradient_model(str(make_checkpoint(0)))

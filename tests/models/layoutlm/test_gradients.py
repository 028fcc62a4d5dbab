from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.gradient_protocol import gradient_of
from pfl_audit.models.layoutlm.gradients import LayoutLmGradients
from pfl_audit.models.layoutlm.model import LayoutLmQa
from pfl_audit.models.layoutlm.spans import find_answer
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.samples import Sample
from tests.models.gradient_checks import mean_of_samples, second_derivatives_agree

Make = Callable[[str], Path]
KINDS = ("v1", "v1-bpe", "v3", "v3-blind")
PAGE = np.random.default_rng(0).integers(0, 256, (70, 60, 3), dtype=np.uint8)


def opened(folder: Path) -> LayoutLmGradients:
    model = open_gradient_model(str(folder))
    assert isinstance(model, LayoutLmGradients)
    return model


def queries(red: Corpus) -> list[Query]:
    return [query for query in red.queries if find_answer(query.document.words, query.answers[0])]


def sample_of(query: Query) -> Sample:
    return Sample(query.question, query.answers[0], query.document.words, query.document.boxes)


def pixels_of(model: LayoutLmGradients) -> torch.Tensor:
    return torch.from_numpy(model.see(Image.fromarray(PAGE))).permute(2, 0, 1).float() / 255


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_transformers_own(kind: str, make_qa: Make, red: Corpus) -> None:
    model = opened(make_qa(kind))
    text = model.text(sample_of(queries(red)[0]))
    pixels = pixels_of(model)[None]
    given = {name: tensor[None] for name, tensor in text.items()}
    if model.config.sees:
        mean, std = (torch.tensor(some).view(3, 1, 1) for some in (model.pixel_settings.mean, model.pixel_settings.std))
        given["pixel_values"] = (pixels - mean) / std
    assert model.loss(pixels, [text]).item() == pytest.approx(model.network(**given).loss.item(), rel=1e-5)


def test_the_loss_is_the_one_that_audits_take(make_qa: Make, red: Corpus) -> None:
    """Of the same window with the same answer, and the page's image left out."""
    model, audited = opened(make_qa("v1")), LayoutLmQa(make_qa("v1"), 1)
    for query in queries(red)[:5]:
        loss = model.loss(pixels_of(model)[None], [model.text(sample_of(query))]).item()
        assert loss == pytest.approx(audited.respond([query])[0].loss, rel=1e-4)


def test_only_the_window_that_holds_the_answer(make_qa: Make, red: Corpus) -> None:
    model = opened(make_qa("v3"))
    query = next(query for query in queries(red) if len(model.inputs.passages(query)) > 1)
    text = model.text(sample_of(query))
    assert len(text["input_ids"]) <= model.inputs.longest
    start, end = int(text["start_positions"]), int(text["end_positions"])
    passages = model.inputs.passages(query)
    assert 0 < start <= end < len(text["input_ids"])
    assert any(np.array_equal(text["input_ids"], passage.ids) for passage in passages)
    pieces = [token for word in query.answers[0].split() for token in model.inputs.tokenizer.encode(word)]
    assert end - start + 1 == len(pieces) or query.answers[0] not in " ".join(query.document.words)


def test_an_answer_that_does_not_stand_on_the_page(make_qa: Make, red: Corpus) -> None:
    query = queries(red)[0]
    sample = Sample(query.question, "nowhere at all", query.document.words, query.document.boxes)
    with pytest.raises(NotAuditableError, match=r"an answer does not stand among the page's words") as error:
        opened(make_qa("v3")).text(sample)
    assert "nowhere" not in str(error.value)


def test_what_it_sees_is_what_it_normalises(make_qa: Make) -> None:
    model = opened(make_qa("v3"))
    assert model.page == (32, 40)
    page = Image.fromarray(PAGE)
    seen = model.see(page)
    assert (seen.dtype, seen.shape) == (np.uint8, (32, 40, 3))
    normal = (seen / 255 - model.pixel_settings.mean) / model.pixel_settings.std
    assert np.abs(normal.transpose(2, 0, 1) - model.pixel_settings.pixels(page).numpy()).max() < 1e-5
    assert model.place((0.1, 0.2, 0.5, 0.6), (60, 70)) == (0.1, 0.2, 0.5, 0.6)
    assert opened(make_qa("v1")).see(page).shape == (224, 224, 3)


@pytest.mark.parametrize("kind", ["v1", "v3"])
def test_a_batch_is_the_mean_of_its_samples(kind: str, make_qa: Make, red: Corpus) -> None:
    """Though the shorter one is padded."""
    model = opened(make_qa(kind))
    texts = sorted((model.text(sample_of(query)) for query in queries(red)[:12]), key=lambda text: len(text["bbox"]))
    texts = [texts[0], texts[-1]]
    assert len(texts[0]["input_ids"]) < len(texts[1]["input_ids"])
    assert mean_of_samples(model, torch.stack([pixels_of(model)] * 2), texts) < 1e-3


def test_second_derivatives(make_qa: Make, red: Corpus) -> None:
    model = opened(make_qa("v3"))
    texts = [model.text(sample_of(query)) for query in queries(red)[:2]]
    assert second_derivatives_agree(model, torch.stack([pixels_of(model)] * 2), texts)


def test_a_blind_model_takes_no_pixels(make_qa: Make, red: Corpus) -> None:
    model = opened(make_qa("v1"))
    texts = [model.text(sample_of(queries(red)[0]))]
    one, other = (gradient_of(model, pixels, texts) for pixels in (pixels_of(model)[None], torch.zeros(1, 3, 224, 224)))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert "layoutlm.embeddings.word_embeddings.weight" in one

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import torch

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.models.protocol import CandidateModel, DocumentModel, DropoutModel, GuessingModel
from pfl_audit.models.vt5.config import BoxScale
from pfl_audit.models.vt5.inputs import InputBuilder, collate
from pfl_audit.models.vt5.model import Vt5Model

from ..oracles import beam as beams
from ..oracles import vt5_reference as oracle

Make = Callable[[int], Path]


@pytest.fixture
def model(make_checkpoint: Make) -> Vt5Model:
    return Vt5Model(make_checkpoint(0))


def test_it_is_a_document_model(model: Vt5Model) -> None:
    assert isinstance(model, DocumentModel)
    assert model.describe()["parameters"] == sum(p.numel() for p in model.network.parameters())


def test_answers_as_the_reference_does_one_at_a_time(model: Vt5Model, red: Corpus) -> None:
    queries = list(red.queries[:12])
    batched = model.respond(queries)
    for query, response in zip(queries, batched, strict=True):
        text, confidence, loss = oracle.answer(model.network, model.inputs.tokenizer, query, 1000.0)
        assert response.answer == text
        assert response.confidence == pytest.approx(confidence, rel=1e-3)
        assert response.loss == pytest.approx(loss, abs=1e-4)
        assert fmean(response.token_losses or ()) == pytest.approx(response.loss, rel=1e-5)


def test_a_response_does_not_depend_on_the_batch(model: Vt5Model, red: Corpus) -> None:
    queries = list(red.queries[:9])
    together = model.respond(queries)
    for query, response in zip(queries, together, strict=True):
        (alone,) = Vt5Model(model.folder).respond([query])
        assert alone.answer == response.answer
        assert alone.loss == pytest.approx(response.loss, abs=1e-4)
        assert alone.confidence == pytest.approx(response.confidence, rel=1e-3)


def test_losses_with_dropout_are_drawn_by_the_question_and_nothing_else_changes(model: Vt5Model, red: Corpus) -> None:
    query, value = red.queries[0], red.queries[0].answers[0]
    before = model.respond([query])
    assert isinstance(model, DropoutModel)
    (first,), (again,) = (model.dropout_losses(query, [value]) for _ in range(2))
    torch.manual_seed(1)
    (other,), (whole, _) = model.dropout_losses(red.queries[1], [value]), model.dropout_losses(query, [value, "x"])
    assert first == again == whole
    assert first.tokens == before[0].tokens
    assert abs(first.loss - (before[0].loss or 0.0)) > 1e-4
    assert other != first
    assert not model.network.training
    assert model.respond([query]) == before


def test_without_dropout_in_its_layers_a_loss_with_dropout_is_the_reference_loss(model: Vt5Model, red: Corpus) -> None:
    for layer in model.network.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
        for name in ("drop_prob", "dropout"):
            if isinstance(getattr(layer, name, None), float):
                setattr(layer, name, 0.0)
    for query in red.queries[:3]:
        _, _, loss = oracle.answer(model.network, model.inputs.tokenizer, query, 1000.0)
        (found,) = model.dropout_losses(query, query.answers[:1])
        assert found.loss == pytest.approx(loss, abs=1e-4)


def test_answers_are_compared_as_they_would_be_scored_alone(model: Vt5Model, red: Corpus) -> None:
    query, values = red.queries[0], [found.answers[0] for found in red.queries[:6]]
    scores = model.candidate_losses(query, values)
    assert isinstance(model, CandidateModel)
    for value, score in zip(values, scores, strict=True):
        (alone,) = model.respond([replace(query, answers=(value,))])
        assert (score.loss, score.tokens) == (pytest.approx(alone.loss, abs=1e-4), alone.tokens)
    assert len({round(score.loss, 3) for score in scores}) > 1


@torch.no_grad()
def likely_texts(model: Vt5Model, query: Query, width: int) -> set[str]:
    """What a beam finds that computes the whole prefix anew for every token."""
    embeddings, mask = oracle.encode(model.network, model.inputs.tokenizer, [query], 1000.0)

    def after(prefix: tuple[int, ...]) -> list[float]:
        out = model.network.language_backbone(
            inputs_embeds=embeddings, attention_mask=mask, decoder_input_ids=torch.tensor([[0, *prefix]])
        )
        return out.logits[0, -1].double().log_softmax(dim=-1).tolist()

    found = beams.narrow(after, width, (1,), model.network.config.max_answer_tokens - 1, barred=(0,))
    return {model.inputs.tokenizer.decode(list(tokens)) for tokens, _ in found}


@pytest.mark.parametrize("width", [1, 3])
def test_its_guesses_are_those_of_a_beam_without_a_cache(model: Vt5Model, red: Corpus, width: int) -> None:
    queries = list(red.queries[:4])
    assert isinstance(model, GuessingModel)
    for query, guesses in zip(queries, model.guess(queries, width), strict=True):
        assert {guess.answer for guess in guesses} == likely_texts(model, query, width)
        assert [guess.loss for guess in guesses] == sorted(guess.loss for guess in guesses)


def test_guesses_have_the_losses_of_answers_whatever_else_is_in_the_batch(model: Vt5Model, red: Corpus) -> None:
    queries = list(red.queries[:7])
    for query, guesses in zip(queries, model.guess(queries, 4), strict=True):
        scores = model.candidate_losses(query, [guess.answer for guess in guesses])
        assert [guess.loss for guess in guesses] == pytest.approx([score.loss for score in scores], abs=1e-4)
        assert [guess.tokens for guess in guesses] == [score.tokens for score in scores]
        (alone,) = model.guess([replace(query, answers=("other",))], 4)
        assert {one.answer for one in alone} == {one.answer for one in guesses}


def test_padding_between_text_and_page_as_the_reference_batches(model: Vt5Model, red: Corpus) -> None:
    queries = list(red.queries[:5])
    text = collate([model.inputs.text(query) for query in queries])
    with torch.inference_mode():
        features = model.network.visual_embedding.encode(
            torch.stack([model.inputs.pixels(q.document) for q in queries])
        )
        embeddings, mask = model.network.embed(text, features, pads_before_page=True)
        start = torch.zeros(len(queries), 1, dtype=torch.long)
        logits = model.network.language_backbone(
            inputs_embeds=embeddings, attention_mask=mask, decoder_input_ids=start
        ).logits
    expected = oracle.batch_logits(model.network, model.inputs.tokenizer, queries, 1000.0)
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


def test_input_is_prompt_words_end_in_this_order(model: Vt5Model, page: Callable[..., Document]) -> None:
    query = Query("q", page("Total", "42"), "What?", ("42",))
    text = model.inputs.text(query)
    tokens = model.inputs.tokenizer
    prompt = list(tokens.encode("question: What?  context: "))
    words = [token for word in ("total", "42") for token in tokens.encode(word)]
    assert text.ids.tolist() == [*prompt, *words, 1]
    assert text.boxes[: len(prompt)].tolist() == [[0, 0, 1000, 1000]] * len(prompt)
    assert text.boxes[-1].tolist() == [0, 0, 0, 0]
    assert text.boxes[len(prompt)].tolist() == [0, 100, 500, 200]


def test_a_long_page_is_cut_and_still_ends(model: Vt5Model, page: Callable[..., Document]) -> None:
    text = model.inputs.text(Query("q", page(*["word"] * 600), "What?", ("42",)))
    assert len(text.ids) == 512
    assert text.ids[-1] == 1
    (response,) = model.respond([Query("q", page(*["word"] * 600), "What?", ("42",))])
    assert response.loss is not None


def test_a_page_without_words_or_picture(model: Vt5Model, page: Callable[..., Document]) -> None:
    bare = replace(page(), image=None)
    (response,) = model.respond([Query("q", bare, "", ("",))])
    assert response.tokens == 1


def test_reference_boxes_are_all_zero_but_at_the_very_edge(model: Vt5Model, page: Callable[..., Document]) -> None:
    config = replace(model.network.config, box_scale=BoxScale.REFERENCE)
    builder = InputBuilder(config, model.inputs.tokenizer)
    text = builder.text(Query("q", page("a", "b"), "", ("x",)))
    prompt = len(model.inputs.tokenizer.encode("question:   context: "))
    assert set(text.boxes[prompt:].flatten().tolist()) == {0, 1}
    assert text.boxes[-2].tolist() == [0, 0, 1, 0]


def test_every_page_is_encoded_once(model: Vt5Model, red: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    encode = model.network.visual_embedding.encode
    monkeypatch.setattr(
        model.network.visual_embedding, "encode", lambda pixels: seen.append(len(pixels)) or encode(pixels)
    )
    queries = list(red.queries[:10])
    model.respond(queries)
    model.respond(queries)
    assert sum(seen) == len({query.document.id for query in queries})


def test_a_batch_with_more_pages_than_are_kept(model: Vt5Model, red: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = list(red.queries[:6])
    true = model.respond(queries)
    monkeypatch.setattr("pfl_audit.models.vt5.model._FEATURE_BYTES", 1)
    assert model.respond(queries) == true


def test_nothing_is_left_in_training_mode_or_with_gradients(model: Vt5Model, red: Corpus) -> None:
    model.network.train()
    fresh = Vt5Model(model.folder)
    assert not any(module.training for module in fresh.network.modules())
    fresh.respond(list(red.queries[:2]))
    assert all(parameter.grad is None for parameter in fresh.network.parameters())

"""Answers and losses of every family against transformers' own generate and loss."""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
import transformers as hf

from pfl_audit.documents.document import Query
from pfl_audit.models.auto.inputs import font, page_image
from pfl_audit.models.auto.load import LONGEST_ANSWER
from pfl_audit.models.auto.model import AutoModel
from pfl_audit.models.prompt_template import fill
from pfl_audit.models.protocol import CandidateModel, DocumentModel, GuessingModel
from tests.models.auto.zoo import FAMILIES, IMAGE_FAMILIES, TEXT_FAMILIES, ids, save, tokenizer

Opened = Callable[[str], AutoModel]


def own_inputs(name: str, model: AutoModel, query: Query) -> dict[str, Any]:
    """Inputs of a question as a user of transformers makes them."""
    tokenizer, processor, page = model.tokenizer, model.inputs.loaded.processor, page_image(query.document)
    prompt = fill(model.inputs.template, query.question, " ".join(query.document.words))
    if name == "udop":
        boxes = (query.document.boxes * 1000).astype(int).tolist()
        made = processor(
            page, prompt, text_pair=list(query.document.words), boxes=boxes, truncation="only_second",
            max_length=tokenizer.model_max_length, return_tensors="pt",
        )  # fmt: skip
        return {key: made[key] for key in ("input_ids", "attention_mask", "bbox", "pixel_values")}
    if name == "pix2struct":
        header = processor.image_processor.render_header(page, prompt, font_path=font())
        return dict(type(processor.image_processor)(max_patches=24)([header], return_tensors="pt"))
    chats = getattr(tokenizer, "chat_template", None)
    if name in TEXT_FAMILIES:
        if not chats:
            return dict(tokenizer([prompt], return_tensors="pt"))
        turn = [{"role": "user", "content": prompt}]
        return dict(
            tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=True, return_tensors="pt")
        )
    if chats:
        turn = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]}]
        prompt = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
    elif name == "paligemma":
        prompt = f"<image>{prompt}"
    made = dict(processor(text=[prompt], images=[page], return_tensors="pt"))
    made.pop("labels", None)
    return made


def own_loss(model: AutoModel, inputs: dict[str, Any], target: list[int]) -> float:
    """The loss that transformers computes with the answer's tokens as labels."""
    labels = torch.tensor([target])
    if not model.network.config.is_encoder_decoder:
        before = inputs["input_ids"]
        rest = {"input_ids": labels, "attention_mask": torch.ones_like(labels), "mm_token_type_ids": labels * 0,
                "token_type_ids": torch.ones_like(labels)}  # fmt: skip
        inputs = {key: torch.cat([value, rest[key]], dim=1) if key in rest else value for key, value in inputs.items()}
        labels = torch.cat([torch.full_like(before, -100), labels], dim=1)
    with torch.inference_mode():
        return float(model.network(**inputs, labels=labels).loss)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FAMILIES)
def test_answers_and_losses_are_those_of_transformers(name: str, opened: Opened, queries: list[Query]) -> None:
    model = opened(name)
    for query, response in zip(queries, model.respond(queries), strict=True):
        inputs = own_inputs(name, model, query)
        with torch.inference_mode():
            out = model.network.generate(
                **inputs, do_sample=False, num_beams=1, max_new_tokens=LONGEST_ANSWER, return_dict_in_generate=True,
                output_scores=True,
            )  # fmt: skip
        tokens = out.sequences[0, -len(out.scores) :]
        text = model.tokenizer.decode(tokens, skip_special_tokens=True)
        assert response.answer == (text.lstrip().split("\n")[0] if name == "gpt2" else text).strip()
        if name != "gpt2":
            kept = [n for n, token in enumerate(tokens.tolist()) if token not in model.tokenizer.all_special_ids]
            own = sum(float(out.scores[n][0].log_softmax(-1)[tokens[n]]) for n in kept)
            assert response.confidence == pytest.approx(exp(own), rel=1e-3)
        target = model.inputs.answer(query.answers[0], model.inputs.prompt(query))
        assert target[-1] == model.tokenizer.eos_token_id
        assert query.answers[0] in model.tokenizer.decode(target) or name == "udop"  # whose vocabulary is letters
        assert response.tokens == len(target) == len(response.token_losses or ())
        assert fmean(response.token_losses or ()) == pytest.approx(response.loss, rel=1e-5)
        assert response.loss == pytest.approx(own_loss(model, inputs, target), abs=1e-4)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_response_does_not_depend_on_the_batch(name: str, opened: Opened, queries: list[Query]) -> None:
    model = opened(name)
    assert isinstance(model, DocumentModel)
    assert len({model.cost(query) for query in queries}) > 1 or name in ("pix2struct", "udop")
    for query, together in zip(queries, model.respond(queries), strict=True):
        (alone,) = model.respond([query])
        assert alone.answer == together.answer
        assert alone.loss == pytest.approx(together.loss, abs=1e-5)
        assert alone.confidence == pytest.approx(together.confidence, rel=1e-4)


@pytest.mark.parametrize("name", ["t5", "llama", "paligemma", "udop"])
def test_candidates_have_the_losses_of_answers(name: str, opened: Opened, queries: list[Query]) -> None:
    model, query = opened(name), queries[0]
    assert isinstance(model, CandidateModel)
    scores = model.candidate_losses(query, ["something else", query.answers[0], "1"])
    (response,) = model.respond([query])
    assert scores[1].loss == pytest.approx(response.loss, abs=1e-5)
    assert len({score.loss for score in scores}) == 3


@pytest.mark.parametrize("name", ["t5", "llama", "gpt2", "paligemma", "udop"])
def test_guesses_are_ranked_by_their_losses(name: str, opened: Opened, queries: list[Query]) -> None:
    model = opened(name)
    assert isinstance(model, GuessingModel)
    for query, guesses in zip(queries[:2], model.guess(queries[:2], 3), strict=True):
        assert 1 <= len(guesses) <= 3
        assert len({guess.answer for guess in guesses}) == len(guesses)
        scores = model.candidate_losses(query, [guess.answer for guess in guesses])
        assert [guess.loss for guess in guesses] == pytest.approx([score.loss for score in scores], abs=1e-5)
        assert [guess.tokens for guess in guesses] == [score.tokens for score in scores]
        assert [guess.loss for guess in guesses] == sorted(guess.loss for guess in guesses)


@pytest.mark.parametrize("name", [name for name in IMAGE_FAMILIES if name != "udop"])
def test_the_page_image_counts_and_the_question_too(name: str, opened: Opened, queries: list[Query]) -> None:
    model, first, second = opened(name), queries[0], queries[1]
    moved = Query("moved", second.document, first.question, first.answers)
    other = Query("other", first.document, "Is this an entirely different question?", first.answers)
    losses = [response.loss for response in model.respond([first, moved, other])]
    assert len(set(losses)) == 3


def test_a_recurrent_model_is_asked_one_question_at_a_time(tmp_path: Path, here: None, queries: list[Query]) -> None:
    tok = tokenizer([" ".join(query.document.words) for query in queries])
    config = hf.RwkvConfig(hidden_size=32, num_hidden_layers=2, context_length=2048, **ids(tok))
    model = AutoModel(save(tmp_path, config, "AutoModelForCausalLM", tok))
    assert [model.respond([query])[0].answer for query in queries] == [one.answer for one in model.respond(queries)]

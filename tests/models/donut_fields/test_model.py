"""Answers and losses against transformers' own generate and token2json."""

from __future__ import annotations

from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

from pfl_audit.documents.document import Query
from pfl_audit.documents.readers.gathered import leaves
from pfl_audit.errors import UnanswerableError
from pfl_audit.models.donut_fields.model import DonutFields
from pfl_audit.models.open import open_model
from pfl_audit.models.protocol import CandidateModel, DocumentModel, FieldModel
from tests.models.donut_fields.conftest import KEYS, TASK


def opened(folder: Path) -> DonutFields:
    model = open_model(str(folder))
    assert isinstance(model, DonutFields)
    return model


def processor(folder: Path) -> Any:
    """transformers' own processor of a folder."""
    from transformers import DonutProcessor, PreTrainedTokenizerFast
    from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    made = object.__new__(DonutProcessor)
    made.tokenizer, made.image_processor = tokenizer, DonutImageProcessorPil.from_pretrained(folder)
    return made


def own_sequence(model: DonutFields, own: Any, network: Any, query: Query) -> tuple[list[int], torch.Tensor]:
    """Tokens that ``generate`` writes of a page, the task first, and the page's pixels."""
    assert query.document.image is not None
    pixels = own.image_processor(query.document.image.open(), return_tensors="pt")["pixel_values"]
    task, end, pad, unknown = (own.tokenizer.convert_tokens_to_ids(one) for one in (TASK, "</s>", "<pad>", "<unk>"))
    out = network.generate(
        pixels, decoder_input_ids=torch.tensor([[task]]), max_length=model.config.longest, pad_token_id=pad,
        eos_token_id=end, bad_words_ids=[[unknown]], do_sample=False, num_beams=1,
    )  # fmt: skip
    return out[0].tolist(), pixels


@pytest.fixture(scope="module")
def network(trained: Path) -> Any:
    from transformers import VisionEncoderDecoderModel

    return VisionEncoderDecoderModel.from_pretrained(trained).eval()


def test_answers_and_losses_are_those_of_transformers(trained: Path, network: Any, queries: list[Query]) -> None:
    model, own = opened(trained), processor(trained)
    assert isinstance(model, DocumentModel)
    assert isinstance(model, FieldModel)
    right = 0
    for query, response in zip(queries, model.respond(queries), strict=True):
        ids, pixels = own_sequence(model, own, network, query)
        text = own.tokenizer.decode(ids).replace("</s>", "").replace("<pad>", "").replace(TASK, "", 1)
        found = dict(leaves(own.token2json(text)))
        assert response.answer == found.get(query.key, "")
        right += response.answer == query.answers[0]
        if not response.answer:
            continue
        # The loss of the value's tokens and the closing tag after what was written before the field.
        key = query.key.rsplit(".", 1)[-1]
        opening, closing = (own.tokenizer.convert_tokens_to_ids(f"<{end}s_{key}>") for end in ("", "/"))
        before = ids[: ids.index(opening) + 1]
        target = [*own.tokenizer.encode(query.answers[0], add_special_tokens=False), closing]
        with torch.inference_mode():
            logits = network(pixel_values=pixels, decoder_input_ids=torch.tensor([[*before, *target[:-1]]])).logits
            logs = logits[0, len(before) - 1 :].double().log_softmax(-1)
            loss = -float(logs[torch.arange(len(target)), torch.tensor(target)].mean())
            written = ids[len(before) : ids.index(closing) + 1]
            again = network(pixel_values=pixels, decoder_input_ids=torch.tensor([[*before, *written[:-1]]])).logits
            logs = again[0, len(before) - 1 :].double().log_softmax(-1)
        assert response.tokens == len(target) == len(response.token_losses or ())
        assert fmean(response.token_losses or ()) == pytest.approx(response.loss, rel=1e-5)
        assert response.loss == pytest.approx(loss, abs=1e-4)
        sure = exp(float(logs[torch.arange(len(written)), torch.tensor(written)].sum()))
        assert response.confidence == pytest.approx(sure, rel=1e-3)
    assert right >= 2


def test_a_response_does_not_depend_on_the_batch(trained: Path, queries: list[Query]) -> None:
    model, other = opened(trained), opened(trained)
    for query, together in zip(queries[:5], model.respond(queries), strict=False):
        (alone,) = other.respond([query])
        assert alone.answer == together.answer
        assert alone.loss == pytest.approx(together.loss, abs=1e-5)


def test_candidates_have_the_losses_of_answers(trained: Path, queries: list[Query]) -> None:
    model, query = opened(trained), queries[0]
    assert isinstance(model, CandidateModel)
    (response,) = model.respond([query])
    scores = model.candidate_losses(query, ["something else", query.answers[0]])
    assert scores[1].loss == pytest.approx(response.loss, abs=1e-5)
    assert scores[0].loss > scores[1].loss


def test_a_key_without_tags_is_unanswerable(trained: Path, queries: list[Query]) -> None:
    model = opened(trained)
    strange = Query("q", queries[0].document, "What is it?", ("x",), "tax_number")
    with pytest.raises(UnanswerableError) as caught:
        model.respond([strange])
    assert caught.value.reason == "the model has no field of the key 'tax_number'"
    with pytest.raises(UnanswerableError):
        model.require_field(strange)
    assert set(KEYS) == set(model.inputs.tags.opens)


def test_a_field_that_is_not_printed_is_an_empty_answer_with_a_loss(start: Path, queries: list[Query]) -> None:
    random = opened(start)  # which never closes a tag
    responses = random.respond(queries[:4])
    assert all(len(random._printed[name][0].ids) <= random.config.longest for name in random._printed)
    assert {(one.answer, one.confidence) for one in responses} == {("", 0.0)}
    assert all(one.loss for one in responses)

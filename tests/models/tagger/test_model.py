"""Answers and losses of every family against transformers' own outputs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pfl_audit.documents.document import Document, Query, as_boxes
from pfl_audit.errors import UnanswerableError
from pfl_audit.models.layoutlm.spans import find_answers
from pfl_audit.models.open import open_model
from pfl_audit.models.protocol import DocumentModel, FieldModel
from pfl_audit.models.tagger.model import TokenTagger
from pfl_audit.models.tagger.training import open_training
from tests.models.tagger.zoo import BIO, FAMILIES, save, word_piece

Make = Callable[..., Path]


def opened(folder: Path) -> TokenTagger:
    model = open_model(str(folder))
    assert isinstance(model, TokenTagger)
    return model


def own_logits(folder: Path, name: str, page: Document) -> dict[int, np.ndarray[Any, Any]]:
    """Word to log-probabilities of the labels of its first token, as a user of transformers computes them."""
    import transformers as hf
    from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import LayoutLMv3ImageProcessorPil

    network = hf.AutoModelForTokenClassification.from_pretrained(folder).eval()
    tokenizer: Any = hf.AutoTokenizer.from_pretrained(folder)
    boxes = [[int(Decimal(str(edge)) * 1000) for edge in box] for box in page.boxes]
    if name in ("bert", "layoutlm"):
        made = tokenizer([list(page.words)], is_split_into_words=True, return_tensors="pt")
        if name == "layoutlm":
            rows = [boxes[word] if word is not None else None for word in made.word_ids()]
            rows = [[0] * 4, *rows[1:-1], [1000] * 4]
            made["bbox"] = torch.tensor([rows])
    else:
        made = tokenizer([list(page.words)], boxes=[boxes], return_tensors="pt")
    if name == "layoutlmv3":
        assert page.image is not None
        pictures = LayoutLMv3ImageProcessorPil.from_pretrained(folder, apply_ocr=False)
        made["pixel_values"] = pictures(page.image.open(), return_tensors="pt")["pixel_values"]
    with torch.inference_mode():
        logs = network(**made).logits[0].double().log_softmax(-1).numpy()
    firsts: dict[int, int] = {}
    for place, word in enumerate(made.word_ids()):
        if word is not None:
            firsts.setdefault(word, place)
    return {word: logs[place] for word, place in firsts.items()}


def own_fields(logs: dict[int, np.ndarray[Any, Any]], names: list[str], words: tuple[str, ...]) -> dict[str, list[str]]:
    """Spans by key, read label by label."""
    found: dict[str, list[str]] = {}
    before = "O"
    for word, row in logs.items():
        name = names[int(row.argmax())]
        key = name[2:].lower().replace(" ", "_")
        if name != "O":
            if name[0] in "BS" or before[2:] != name[2:] or before[0] in "ES":
                found.setdefault(key, []).append("")
            found[key][-1] = f"{found[key][-1]} {words[word]}".strip()
        before = name
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FAMILIES)
def test_answers_and_losses_are_those_of_transformers(
    name: str, tagger: Make, here: None, queries: list[Query]
) -> None:
    model = opened(tagger(name))
    assert isinstance(model, DocumentModel)
    assert isinstance(model, FieldModel)
    names, said = list(model.labels.names), 0
    pages = {query.document.id: own_logits(tagger(name), name, query.document) for query in queries}
    for query, response in zip(queries, model.respond(queries), strict=True):
        logs, words = pages[query.document.id], query.document.words
        values = own_fields(logs, names, words).get(query.key, [])
        wanted = next((one for one in values if one.lower() == query.answers[0].lower()), (values or [""])[0])
        assert response.answer == wanted
        said += bool(values)
        assert (response.confidence or 0) > 0 if values else response.confidence == 0
        label = "Total Amount" if query.key == "total_amount" else query.key.upper()
        losses = []
        for first, last in find_answers(words, query.answers[0]):
            rows = [(logs[word], word) for word in range(first, last + 1) if word in logs]
            prefixes = ["B" if word == rows[0][1] else "I" for _, word in rows]
            if name == "layoutlm":
                prefixes = ["S"] if len(rows) == 1 else [*prefixes[:-1], "E"]
            true = [names.index(f"{prefix}-{label}") for prefix in prefixes]
            losses.append(-np.mean([row[number] for (row, _), number in zip(rows, true, strict=True)]))
        if not losses:
            key = [number for number, one in enumerate(names) if one.endswith(f"-{label}")]
            losses = [-np.mean([np.log1p(-np.exp(row[key]).sum()) for row in logs.values()])]
        assert response.loss == pytest.approx(min(losses), abs=1e-4)
    assert said


@pytest.mark.parametrize("name", ["bert", "layoutlmv3"])
def test_a_long_page_is_tagged_in_windows(name: str, tagger: Make, here: None, queries: list[Query]) -> None:
    model, whole = opened(tagger(name, 64)), opened(tagger(name))
    page = queries[0].document
    windows = model.inputs.windows(page)
    assert len(windows) > 2
    assert all(window.tensors["input_ids"].shape[1] <= 64 for window in windows)
    assert {word for window in windows for word in window.words} == set(whole.inputs.windows(page)[0].words)
    shared = [set(one.words) & set(two.words) for one, two in pairwise(windows)]
    assert all(shared)
    (response,) = model.respond([queries[0]])
    assert response.loss


def test_a_length_that_the_tokenizer_was_saved_with_cuts_no_page(
    tagger: Make, here: None, queries: list[Query], tmp_path: Path
) -> None:
    whole, folder = opened(tagger("bert")), Path(shutil.copytree(tagger("bert"), tmp_path / "ckpt"))
    content = json.loads((folder / "tokenizer.json").read_text())
    content["truncation"] = {"direction": "Right", "max_length": 9, "strategy": "LongestFirst", "stride": 0}
    content["padding"] = {"strategy": {"Fixed": 999}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                          "pad_type_id": 0, "pad_token": "[PAD]"}  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(content))
    found, wanted = (model.inputs.windows(queries[0].document) for model in (opened(folder), whole))
    assert [one.words for one in found] == [one.words for one in wanted]


@pytest.mark.parametrize("limit", ["abc", None, -3, [], float("nan")])
def test_a_limit_that_is_none_counts_as_none(limit: object, tagger: Make, here: None, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tagger("bert"), tmp_path / "ckpt"))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "model_max_length": limit}))
    assert opened(folder).inputs.longest == 512


def test_tied_tensors_are_saved_once_and_read_back(here: None, tmp_path: Path) -> None:
    from transformers import T5Config

    tok = word_piece(["some words of a page"] * 5, 512)
    config = T5Config(vocab_size=len(tok), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_decoder_layers=1, num_heads=2)
    model = open_training(save(tmp_path / "start", config, BIO, tok))
    model.save(tmp_path / "trained", {}, half=False)
    found, wanted = opened(tmp_path / "trained").network.state_dict(), model.network.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())


@pytest.mark.parametrize("name", FAMILIES)
def test_a_response_does_not_depend_on_the_batch(name: str, tagger: Make, here: None, queries: list[Query]) -> None:
    model, other = opened(tagger(name, 64)), opened(tagger(name, 64))
    for query, together in zip(queries[:4], model.respond(queries), strict=False):
        (alone,) = other.respond([query])
        assert alone.answer == together.answer
        assert alone.loss == pytest.approx(together.loss, abs=1e-5)


def test_what_cannot_be_tagged_is_unanswerable(tagger: Make, here: None, queries: list[Query]) -> None:
    model, query = opened(tagger("bert")), queries[0]
    with pytest.raises(UnanswerableError) as caught:
        model.require_field(replace(query, key="tax_number"))
    assert caught.value.reason == "the model has no field of the key 'tax_number'"
    with pytest.raises(UnanswerableError, match="no words"):
        model.respond([replace(query, document=replace(query.document, words=(), boxes=as_boxes([], 0)))])


def test_text_that_spells_special_tokens_and_long_words(tagger: Make, here: None, queries: list[Query]) -> None:
    model, page = opened(tagger("bert", 64)), queries[0].document
    words = ("[SEP]", "x" * 90, "[CLS]a", "\x00", "!" * 200)
    boxes = as_boxes([[0.1, 0.1, 0.2, 0.2]] * len(words), len(words))
    odd = replace(page, words=words, boxes=boxes)
    windows = model.inputs.windows(odd)
    assert all(window.tensors["input_ids"].shape[1] <= 64 for window in windows)
    assert all(
        (window.tensors["input_ids"][0, 1:-1] > 3).all() or 1 in window.tensors["input_ids"] for window in windows
    )
    assert model.respond([replace(queries[0], document=odd)])[0].loss


def test_confidence_is_the_product_over_the_words_of_a_span(tagger: Make, here: None, queries: list[Query]) -> None:
    model = opened(tagger("bert"))
    logs = own_logits(tagger("bert"), "bert", queries[0].document)
    response = next(one for one in model.respond(queries) if one.answer)
    query = queries[[one.answer for one in model.respond(queries)].index(response.answer)]
    assert query.document is queries[0].document
    best = [exp(float(row.max())) for row in logs.values()]
    assert min(best) ** len(query.document.words) < (response.confidence or 0) <= max(best)

"""Prompts, their limits, and text of documents that spells special tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp
from pathlib import Path

import pytest

from pfl_audit.documents.document import Document, Query, as_boxes
from pfl_audit.errors import UnanswerableError, UsageError
from pfl_audit.models.auto.inputs import ImageInputs
from pfl_audit.models.auto.load import LONGEST_ANSWER
from pfl_audit.models.auto.model import AutoModel
from pfl_audit.models.auto.token_filter import TokenFilter
from pfl_audit.models.prompt_template import fill, read_prompt

Opened = Callable[[str], AutoModel]


def page_of(words: list[str], like: Document) -> Document:
    return replace(like, words=tuple(words), boxes=as_boxes([[0.1, 0.1, 0.2, 0.2]] * len(words), len(words)))


def test_a_template_is_a_text_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "ask.txt").write_text("Q: {question}\nW: {words}\n")
    assert read_prompt(str(tmp_path / "ask.txt")) == "Q: {question}\nW: {words}"
    assert read_prompt("{question}") == "{question}"


@pytest.mark.parametrize("given", ["", "Question:", "{words}", "nowhere.txt", "x" * 5000])
def test_a_template_without_the_question_is_refused_in_one_line(given: str) -> None:
    with pytest.raises(UsageError, match=r"lacks \{question\}"):
        read_prompt(given)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown field \{page\}"):
        read_prompt("{question} {page}")


def test_braces_of_a_document_have_no_effect() -> None:
    assert fill("{question}|{words}", "{words}", "{question} {0}") == "{words}|{question} {0}"


def test_special_tokens_are_removed_and_never_joined() -> None:
    clean = TokenFilter(["<image>", "</s>", ""])
    assert clean("a <image> b") == "a   b"
    assert "</s>" not in clean("<</s>/s>")
    assert TokenFilter([])("<image>") == "<image>"


@pytest.mark.parametrize("name", ["t5", "gpt2", "llama"])
def test_words_are_cut_and_the_question_never(name: str, opened: Opened, queries: list[Query]) -> None:
    model, question = opened(name), "What is the very last of all the words of this page?"
    query = Query("long", page_of([f"word{n}" for n in range(5000)], queries[0].document), question, ("x",))
    prompt = model.inputs.prompt(query)
    assert question in prompt
    assert "word0 word1" in prompt
    assert "word4999" not in prompt
    free = 0 if name == "t5" else LONGEST_ANSWER
    assert model.inputs.longest - 20 < model.cost(query) <= model.inputs.longest
    assert model.cost(query) + free <= 2048
    shorter = page_of(prompt.split("word0", 1)[1].count("word") * ["y"], query.document)
    assert model.cost(replace(query, document=shorter)) < model.cost(query)


def test_a_question_that_does_not_fit_is_unanswerable(opened: Opened, queries: list[Query]) -> None:
    with pytest.raises(UnanswerableError, match="does not fit into 2048 tokens"):
        opened("t5").respond([Query("x", queries[0].document, "why " * 3000, ("x",))])


@pytest.mark.parametrize("name", ["t5", "llama", "qwen2_vl", "paligemma", "florence2"])
def test_special_tokens_on_a_page_do_not_reach_the_model(name: str, opened: Opened, queries: list[Query]) -> None:
    model = opened(name)
    spelled = [*model.tokenizer.all_special_tokens, "<|image_pad|>", "<image>"]
    question = f"What {' '.join(spelled)} is it?"
    query = Query("x", page_of(spelled, queries[0].document), question, (f"a{spelled[2]}b",))
    plain = Query("y", page_of(["x"], queries[0].document), "What is it?", ("ab",))
    ids = {one.id: model.inputs.build(one)["input_ids"][0].tolist() for one in (query, plain)}
    special = set(model.tokenizer.all_special_ids)
    known = [[token for token in ids[one] if token in special] for one in ("x", "y")]
    assert known[0] == known[1]
    target = model.inputs.answer(query.answers[0], model.inputs.prompt(query))
    assert [token for token in target if token in special] == [model.tokenizer.eos_token_id]


def test_a_long_answer_is_cut_to_the_limit(opened: Opened, queries: list[Query]) -> None:
    (response,) = opened("t5").respond([replace(queries[0], answers=("0123456789" * 50,))])
    assert response.tokens == LONGEST_ANSWER


def test_a_page_without_words_or_picture_is_asked_as_well(opened: Opened, queries: list[Query]) -> None:
    empty = replace(page_of([], queries[0].document), image=None)
    for name in ("t5", "udop", "qwen2_vl", "pix2struct"):
        assert opened(name).respond([replace(queries[0], document=empty)])[0].loss


def test_a_picture_that_cannot_be_read_is_unanswerable(opened: Opened, queries: list[Query], tmp_path: Path) -> None:
    from pfl_audit.documents.images import PageImage

    (tmp_path / "page.png").write_bytes(b"nothing")
    query = replace(queries[0], document=replace(queries[0].document, image=PageImage(tmp_path / "page.png")))
    with pytest.raises(UnanswerableError):
        opened("qwen2_vl").respond([query])


def test_a_batch_shrinks_as_the_input_grows(opened: Opened) -> None:
    sizes = [opened("llama").batch_size(cost) for cost in (10, 1000, 16_000)]
    assert sizes[0] > sizes[1] > sizes[2] >= 1


def test_the_first_line_keeps_what_its_last_token_has_before_the_line_ends(opened: Opened) -> None:
    model, end = opened("gpt2"), 1000
    own, inc = model.tokenizer, model.tokenizer("Acme Inc")["input_ids"]

    class Tokens:
        """The tokenizer with one token more."""

        all_special_ids = own.all_special_ids

        def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
            texts = [".\n\nQ" if one == end else own.decode([one], skip_special_tokens=True) for one in ids]
            return "".join(texts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "tokenizer", Tokens())
        logs = [-0.5] * (len(inc) + 2)
        assert model._read([*inc, end, inc[0]], logs) == ("Acme Inc.", pytest.approx(exp(-0.5 * (len(inc) + 1))))
        assert model._read([*inc, *own("\n")["input_ids"]], logs) == ("Acme Inc", pytest.approx(exp(-0.5 * len(inc))))


@pytest.mark.parametrize("name", ["paligemma", "qwen2_vl"])
def test_a_template_may_place_the_page_image(name: str, opened: Opened, queries: list[Query]) -> None:
    loaded = replace(opened(name).inputs.loaded, turn=None)
    mark = loaded.processor.image_token
    inputs = ImageInputs(loaded, f"USER: {mark}\n{{question}} ASSISTANT:")
    assert inputs.prompt(queries[0]).count(mark) == 1
    assert inputs.build(queries[0])["input_ids"].shape[1] == inputs.cost(queries[0])

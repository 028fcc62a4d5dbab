from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LayoutLMConfig, LayoutLMv3Config

from pfl_audit.documents.document import Document, Query, as_boxes
from pfl_audit.models.layoutlm.config import QaConfig
from pfl_audit.models.layoutlm.inputs import OVERLAP, InputBuilder, Target
from pfl_audit.models.layoutlm.tokenizer import WordTokenizer

Make = Callable[[str], Path]


def builder(folder: Path, longest: int = 512) -> InputBuilder:
    return InputBuilder(QaConfig(1, LayoutLMConfig(max_position_embeddings=longest)), WordTokenizer.open(folder))


@pytest.fixture(scope="session")
def short(make_qa: Make) -> InputBuilder:
    return builder(make_qa("v1"), 32)


def paper(words: list[str]) -> Document:
    return Document("d_1", "Acme", tuple(words), as_boxes([[0.1, 0.2, 0.3, 0.4]] * len(words), len(words)))


def test_windows_of_a_real_length_share_128_tokens(make_qa: Make) -> None:
    inputs = builder(make_qa("v1"))
    passages = inputs.passages(Query("q", paper([str(number) for number in range(1000)]), "What?", ("x",)))
    assert len(passages) > 3
    for before, after in pairwise(passages):
        assert len(before.ids) == 512
        assert before.begin + len(before.words) - after.begin == OVERLAP == 128
        assert before.words[-128:].tolist() == after.words[:128].tolist()
    assert passages[-1].words[-1] == 999


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["1", "22", "a-b", "Total", "7", "\x00"]), max_size=60), st.data())
def test_windows_cover_the_page_and_the_target_is_the_answer(
    short: InputBuilder, words: list[str], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(words)))
    last = data.draw(st.integers(first, len(words)))
    query = Query("q", paper(words), "What?", (" ".join(words[first:last]),))
    passages = short.passages(query)
    tokens = [token for word in words for token in short.tokenizer.encode(word)]
    covered: list[int] = []
    for passage in passages:
        assert len(passage.ids) <= 32
        page = passage.ids[passage.offset : passage.stop].tolist()
        assert page == tokens[passage.begin : passage.begin + len(page)]
        assert (passage.words >= 0).all()
        assert passage.begin <= len(covered)
        covered = covered[: passage.begin] + page
    assert covered == tokens
    target = short.target(query, passages)
    if target == Target(0, 0, 0):
        pieces = [token for word in words[first:last] for token in short.tokenizer.encode(word)]
        assert len(pieces) == 0 or len(pieces) > 8
        return
    passage = passages[target.passage]
    assert passage.offset <= target.start <= target.end < passage.stop
    found = [token for word in words[first:last] for token in short.tokenizer.encode(word)]
    assert passage.ids[target.start : target.end + 1].tolist() == found
    assert not any(
        early.begin <= passage.begin + target.start - passage.offset
        and passage.begin + target.end - passage.offset < early.begin + len(early.words)
        for early in passages[: target.passage]
    )


def test_an_answer_that_no_window_holds_whole_is_asked_of_cls(short: InputBuilder) -> None:
    words = [str(number) for number in range(40)]
    query = Query("q", paper(words), "What?", (" ".join(words),))
    assert short.target(query, short.passages(query)) == Target(0, 0, 0)


def test_boxes_and_segments_of_both_versions(make_qa: Make, page: Callable[..., Document]) -> None:
    query = Query("q", page("7", "7"), "7", ("x",))
    (one,) = builder(make_qa("v1")).passages(query)
    assert one.boxes.tolist() == [[0] * 4, [0] * 4, [1000] * 4, [0, 100, 500, 200], [500, 100, 1000, 200], [1000] * 4]
    assert one.types.tolist() == [0, 0, 0, 1, 1, 1]
    three = InputBuilder(QaConfig(3, LayoutLMv3Config()), WordTokenizer.open(make_qa("v3")))
    (passage,) = three.passages(query)
    assert {tuple(box) for box in np.delete(passage.boxes, np.s_[passage.offset : passage.stop], axis=0)} == {(0,) * 4}
    assert passage.types.tolist() == [0] * len(passage.ids)
    assert three.longest == 512 - 2

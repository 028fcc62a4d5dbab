"""Similar sets against comparing all with all, on random and on adversarial corpora."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_audit.documents import set_index
from pfl_audit.documents.near_duplicates import word_pairs
from pfl_audit.documents.set_index import SetIndex
from pfl_audit.documents.similar_sets import last_similar, similar_groups, similar_sets
from tests.oracles import similar_sets as oracle

Pages = list[list[str]]
Pairs = list[tuple[int, int]]
WORDS = [f"w{number}" for number in range(400)]


def pairs_of(index: SetIndex, threshold: float) -> Pairs:
    found = enumerate(similar_sets(index, threshold))
    return [(one, other) for one, others in found for other in others.tolist() if one < other]


def check(pages: Pages, threshold: float, groups: np.ndarray, allowed: Callable[[int, int], bool]) -> None:
    """All pairs, groups, and the last similar page of another group, against those of comparing all with all."""
    index = word_pairs(pages)
    pairs = oracle.all_pairs([oracle.shingles(page) for page in pages], threshold)
    assert pairs_of(index, threshold) == pairs
    linked = np.arange(len(pages))
    for one, other in pairs:
        linked[linked == linked[one]] = linked[other]
    same = similar_groups(index, threshold)
    assert ((same[:, None] == same) == (linked[:, None] == linked)).all()
    similar = {*pairs, *((other, one) for one, other in pairs)}
    among = np.flatnonzero(groups == 0)
    for accept in (None, lambda one, others: np.array([allowed(one, other) for other in others.tolist()])):
        found = last_similar(index, np.arange(len(pages)), among, threshold, accept)
        for one, last in enumerate(found):
            kept = [at for at in among if (one, at) in similar and (accept is None or allowed(one, at))]
            assert last == max(kept, default=-1)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcA"), max_size=7), max_size=14),
    st.floats(0.05, 1.0),
    st.integers(0, 2**32),
    st.sampled_from([1, 50, 1 << 19]),
    st.sampled_from([0, 1, 4]),
)
def test_small_pages(pages: Pages, threshold: float, seed: int, at_once: int, words: int) -> None:
    groups = np.random.default_rng(seed).integers(0, 2, len(pages))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(set_index, "_AT_ONCE", at_once)
        patch.setattr(set_index, "_WORDS", words)
        check(pages, threshold, groups, lambda one, other: (one + other) % 3 > 0)


def copies(rng: random.Random, pages: int, changed: int) -> Pages:
    """One page, of which each copy has some words of its own."""
    text = WORDS[:80]
    return [[f"v{page}-{at}" if rng.random() < changed / 80 else word for at, word in enumerate(text)]
            for page in range(pages)]  # fmt: skip


def templates(rng: random.Random, pages: int) -> Pages:
    """Three templates with a long text that is the same on each page, and values of few kinds."""
    starts = [WORDS[60 * number : 60 * number + 60] for number in range(3)]
    return [[*rng.choice(starts), *(rng.choice(WORDS[:40]) for _ in range(rng.randrange(30)))] for _ in range(pages)]


CORPORA: dict[str, Callable[[random.Random], Pages]] = {
    "all the same": lambda rng: [WORDS[:50]] * 60,
    "all alike": lambda rng: copies(rng, 60, 3),
    "half alike": lambda rng: copies(rng, 60, 8),
    "nearly alike": lambda rng: [[*WORDS[:100], *(f"v{page}-{at}" for at in range(45))] for page in range(60)],
    "none alike": lambda rng: [rng.sample(WORDS, 60) for _ in range(60)],
    "templates": lambda rng: templates(rng, 80),
    "chains": lambda rng: [WORDS[page * 4 : page * 4 + 60] for page in range(80)],
    "short and empty": lambda rng: [WORDS[:3] for _ in range(9)] + [[]] * 9 + [[word] for word in WORDS[:3]] * 5,
    "mixed": lambda rng: copies(rng, 30, 3) + templates(rng, 30) + [rng.sample(WORDS, 60) for _ in range(30)] + [[]],
}


@pytest.mark.parametrize("threshold", [0.5, 0.7, 1.0])
@pytest.mark.parametrize("corpus", CORPORA)
def test_corpora(corpus: str, threshold: float) -> None:
    rng = random.Random(7)
    pages = CORPORA[corpus](rng)
    rng.shuffle(pages)
    groups = np.random.default_rng(7).integers(0, 3, len(pages))
    check(pages, threshold, groups, lambda one, other: (one * other) % 5 > 1)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(3))
def test_many_pages_against_matrix_products(seed: int) -> None:
    rng = random.Random(seed)
    pages = copies(rng, 400, 6) + templates(rng, 400)
    index = word_pairs(pages)
    for threshold in (0.5, 0.7):
        expected = oracle.similar_sets([oracle.shingles(page) for page in pages], threshold)
        for found, others in zip(similar_sets(index, threshold), expected, strict=True):
            assert found.tolist() == others.tolist()


def test_pages_that_are_alike_are_not_all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    whole = SetIndex.similar

    def counting(self: SetIndex, one: int, others: np.ndarray, threshold: float) -> np.ndarray:
        nonlocal compared
        compared += len(others)
        return whole(self, one, others, threshold)

    monkeypatch.setattr(SetIndex, "similar", counting)
    index = word_pairs(
        [[f"v{page}" if at == page % 80 else word for at, word in enumerate(WORDS[:80])] for page in range(1000)]
    )
    assert len(np.unique(similar_groups(index, 0.7))) == 1
    assert all(found >= 0 for found in last_similar(index, np.arange(500), np.arange(500, 1000), 0.7))
    assert compared < 40 * 1000


def test_a_few_changed_words_make_a_near_duplicate_and_one_layout_does_not() -> None:
    page = WORDS[:30]
    changed = [*page[:10], "new", *page[11:20], "other", *page[21:]]
    values = [word if number % 3 else f"v{number}" for number, word in enumerate(page)]
    assert pairs_of(word_pairs([page, changed, values]), 0.7) == [(0, 1)]
    assert pairs_of(word_pairs([[], [], ["One"], ["one"]]), 0.7) == [(2, 3)]
    assert len(word_pairs([])) == 0
    assert similar_groups(word_pairs([]), 0.7).tolist() == []

import random
from itertools import combinations
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import PARTS, Field, Form, FormCorpus, FormPart
from pfl_audit.documents.forms.partition import partition_forms
from pfl_audit.errors import AuditError, UsageError

from ...oracles.similar_sets import jaccard, shingles

LETTERS = "abcdefghijklmnopqrstuvwxyz"
Pages = list[list[str]]


def form(name: str, words: list[str]) -> Form:
    document = Document(name, "", tuple(words), np.zeros((len(words), 4), np.float32))
    return Form(document, (Field("f", "answer", 0, 1),))


def corpus_of(pages: Pages, parts: list[str] | None = None) -> FormCorpus:
    forms = tuple(form(f"{number:03d}_1", page) for number, page in enumerate(pages))
    named = {f.id: cast("FormPart", part) for f, part in zip(forms, parts or [], strict=False)}
    return FormCorpus(forms, parts=named or None)


def random_pages(count: int, seed: int = 0) -> Pages:
    rng = random.Random(seed)
    return [[rng.choice(LETTERS) + rng.choice(LETTERS) for _ in range(30)] for _ in range(count)]


@st.composite
def pages_with_copies(draw: st.DrawFn) -> Pages:
    """Pages of which some say the same as another but for a word or two."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    pages = random_pages(draw(st.integers(12, 30)), rng.randrange(10**6))
    for _ in range(draw(st.integers(0, 8))):
        copy = list(rng.choice(pages))
        for _ in range(rng.randrange(6)):
            copy[rng.randrange(len(copy))] = "new"
        pages.append(copy)
    return pages


def overlap(one: Form, other: Form) -> float:
    return jaccard(shingles(one.document.words), shingles(other.document.words))


@settings(max_examples=60, deadline=None)
@given(pages_with_copies(), st.integers(0, 99), st.sampled_from([0.3, 0.7, 1.0]))
def test_parts_share_no_form_and_no_near_duplicate(pages: Pages, seed: int, threshold: float) -> None:
    corpus = corpus_of(pages)
    parts = partition_forms(corpus, seed=seed, threshold=threshold)
    assert sorted(f.id for part in PARTS for f in parts.of(part)) == [f.id for f in corpus.forms]
    assert not parts.left_out
    for one, other in combinations(PARTS, 2):
        assert all(overlap(a, b) < threshold for a in parts.of(one) for b in parts.of(other))
    alike = {f.id for f in corpus.forms for g in corpus.forms if f is not g and overlap(f, g) >= threshold}
    assert parts.near_duplicates == len(alike)


@settings(max_examples=60, deadline=None)
@given(pages_with_copies(), st.integers(0, 99), st.sampled_from([0.3, 0.7]))
def test_parts_of_the_source_lose_near_duplicates_of_earlier_ones(pages: Pages, seed: int, threshold: float) -> None:
    rng = random.Random(seed)
    named = [*PARTS, *(rng.choice(PARTS) for _ in pages[3:])]
    corpus = corpus_of(pages, named)
    forms = {part: [f for f, own in zip(corpus.forms, named, strict=True) if own == part] for part in PARTS}
    try:
        parts = partition_forms(corpus, seed=0, threshold=threshold)
    except AuditError:  # every form of a part has a near-duplicate in an earlier one
        public, private = forms["validation"], [*forms["validation"], *forms["public"]]
        lost = [("public", public), ("private", private)]
        assert any(all(any(overlap(f, g) >= threshold for g in before) for f in forms[part]) for part, before in lost)
        return
    kept = [f for part in PARTS for f in parts.of(part)]
    assert sorted([*(f.id for f in kept), *parts.left_out]) == [f.id for f in corpus.forms]
    assert corpus.parts is not None
    for one, other in combinations(PARTS, 2):
        assert all(overlap(a, b) < threshold for a in parts.of(one) for b in parts.of(other))
    for left in (f for f in corpus.forms if f.id in parts.left_out):
        earlier = PARTS[: PARTS.index(corpus.parts[left.id])]
        assert any(overlap(left, f) >= threshold for part in earlier for f in parts.of(part))


@settings(max_examples=30, deadline=None)
@given(pages_with_copies(), st.integers(0, 99), st.randoms(use_true_random=False))
def test_the_order_of_the_source_does_not_matter(pages: Pages, seed: int, rng: random.Random) -> None:
    corpus = corpus_of(pages)
    shuffled = list(corpus.forms)
    rng.shuffle(shuffled)
    one, other = partition_forms(corpus, seed=seed), partition_forms(FormCorpus(tuple(shuffled)), seed=seed)
    assert [[f.id for f in one.of(part)] for part in PARTS] == [[f.id for f in other.of(part)] for part in PARTS]


def test_the_seed_decides_and_the_shares_are_met() -> None:
    corpus = corpus_of(random_pages(100))
    drawn = [partition_forms(corpus, seed=seed) for seed in (0, 0, 1)]
    assert [[len(parts.of(part)) for part in PARTS] for parts in drawn] == [[20, 40, 40]] * 3
    ids = [[f.id for f in parts.private] for parts in drawn]
    assert ids[0] == ids[1] != ids[2]
    assert len(partition_forms(corpus, seed=0, shares=(0.0, 0.25, 0.75)).public) == 25


def test_every_part_has_large_groups() -> None:
    """Groups of 1 to 8 near-duplicates: of each size validation has its share, so that it is a control for all."""
    pages: Pages = []
    sizes = {}
    for size in range(1, 9):
        for page in random_pages(10, seed=size):
            sizes[page[0] + page[1] + page[2]] = size
            pages += [page] * size
    for seed in range(3):
        parts = partition_forms(corpus_of(pages), seed=seed)
        for part, share in zip(PARTS, (2, 4, 4), strict=True):
            groups = {"".join(f.document.words[:3]) for f in parts.of(part)}
            found = [sum(sizes[name] == size for name in groups) for size in range(1, 9)]
            assert found == [share] * 8


def test_pages_of_one_document_stand_together() -> None:
    forms = [form(f"{name}_{page}", words) for name in LETTERS for page, words in enumerate(random_pages(3, ord(name)))]
    parts = partition_forms(FormCorpus(tuple(forms)), seed=3)
    files = [{f.document.file for f in parts.of(part)} for part in PARTS]
    assert not files[0] & files[1] | files[0] & files[2] | files[1] & files[2]
    assert sum(map(len, files)) == len(LETTERS)


def test_too_few_documents_that_differ() -> None:
    pages = random_pages(1) * 20
    with pytest.raises(AuditError, match=r"20 forms of 20 documents .* leave the validation part empty"):
        partition_forms(corpus_of(pages), seed=0)
    with pytest.raises(AuditError, match="leave the private part empty"):
        partition_forms(corpus_of(pages, ["public"] * 10 + ["private"] * 10), seed=0)


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.5), (-0.2, 0.6, 0.6), (float("nan"), 0.5, 0.5)])
def test_shares_out_of_range(shares: tuple[float, float, float]) -> None:
    with pytest.raises(UsageError, match="shares"):
        partition_forms(corpus_of(random_pages(9)), seed=0, shares=shares)


@pytest.mark.parametrize("threshold", [0.0, 1.1, float("nan")])
def test_threshold_out_of_range(threshold: float) -> None:
    with pytest.raises(UsageError, match="threshold"):
        partition_forms(corpus_of(random_pages(9)), seed=0, threshold=threshold)

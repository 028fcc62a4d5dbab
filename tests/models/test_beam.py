"""Beam search against every answer of a tiny vocabulary, and against a beam in plain lists."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.models.beam import Advance, Answer, beam_search

from ..oracles import beam as oracle

ENDS = (0, 1)


def logs_after(seed: object, prefix: tuple[int, ...], vocabulary: int, scale: float) -> list[float]:
    """Log-probabilities of noise that depend on the whole prefix."""
    rng = np.random.default_rng([hash(repr(seed)) % 2**32, *prefix, len(prefix)])
    return torch.tensor(rng.normal(size=vocabulary) * scale).log_softmax(dim=0).tolist()


def decoder(seeds: list[object], vocabulary: int, scale: float) -> tuple[Tensor, Advance, list[int]]:
    """The first step of a decoder without a cache, how to go on, and the number of rows of each step."""
    rows: list[tuple[object, tuple[int, ...]]] = [(seed, ()) for seed in seeds]
    sizes: list[int] = []

    def step() -> Tensor:
        sizes.append(len(rows))
        return torch.tensor([logs_after(seed, prefix, vocabulary, scale) for seed, prefix in rows])

    def advance(parents: Tensor, tokens: Tensor) -> Tensor:
        rows[:] = [
            (rows[at][0], (*rows[at][1], token)) for at, token in zip(parents.tolist(), tokens.tolist(), strict=True)
        ]
        return step()

    return step(), advance, sizes


def search(
    seeds: list[object], width: int, longest: int, vocabulary: int = 5, scale: float = 2.0, barred: tuple[int, ...] = ()
) -> list[list[Answer]]:
    first, advance, _ = decoder(seeds, vocabulary, scale)
    return beam_search(first, advance, width, ENDS, longest, barred)


def same(found: list[Answer], expected: list[tuple[tuple[int, ...], float]]) -> None:
    assert [one.tokens for one in found] == [tokens for tokens, _ in expected]
    assert [one.mean for one in found] == pytest.approx([mean for _, mean in expected], abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 5), st.floats(0.5, 6.0))
def test_a_beam_that_is_wide_enough_finds_every_answer_in_order(
    seed: int, longest: int, vocabulary: int, scale: float
) -> None:
    def after(prefix: tuple[int, ...]) -> list[float]:
        return logs_after(seed, prefix, vocabulary, scale)

    expected = oracle.every_answer(after, ENDS, longest)
    (found,) = search([seed], len(expected), longest, vocabulary, scale)
    same(found, expected)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 9), st.floats(0.5, 6.0))
def test_a_narrow_beam_is_that_of_plain_lists(seed: int, longest: int, width: int, scale: float) -> None:
    def after(prefix: tuple[int, ...]) -> list[float]:
        return logs_after(seed, prefix, 6, scale)

    (found,) = search([seed], width, longest, 6, scale, barred=(3,))
    same(found, oracle.narrow(after, width, ENDS, longest, barred=(3,)))
    assert not any(3 in one.tokens for one in found)


def test_no_question_depends_on_the_others() -> None:
    seeds: list[object] = list(range(12))
    together = search(seeds, 4, 6, scale=4.0)
    for at, found in enumerate(together):
        (alone,) = search([seeds[at]], 4, 6, scale=4.0)
        assert [one.tokens for one in alone] == [one.tokens for one in found]
        assert [one.mean for one in alone] == pytest.approx([one.mean for one in found])
    assert len({tuple(one.tokens for one in found) for found in together}) > 6


def test_questions_that_are_done_are_not_continued() -> None:
    first, advance, sizes = decoder(list(range(12)), 6, 4.0)
    beam_search(first, advance, 3, ENDS, 10)
    assert sizes[0] == 12
    assert sizes[1] == 36
    assert sizes[-1] < 36
    assert sizes[1:] == sorted(sizes[1:], reverse=True)


def test_a_remembered_answer_comes_first_and_an_end_is_its_own_token() -> None:
    said = (4, 2, 3)

    def advance(parents: Tensor, tokens: Tensor) -> Tensor:
        nonlocal rows
        rows = [(*rows[at], token) for at, token in zip(parents.tolist(), tokens.tolist(), strict=True)]
        return torch.stack([logs(row) for row in rows])

    def logs(prefix: tuple[int, ...]) -> Tensor:
        scores = torch.zeros(5)
        scores[(*said, 1)[len(prefix)] if said[: len(prefix)] == prefix and len(prefix) < 4 else 0] = 6.0
        return scores.log_softmax(dim=0)

    rows: list[tuple[int, ...]] = [()]
    (found,) = beam_search(logs(())[None], advance, 3, ENDS, 8)
    assert found[0].tokens == said
    assert len({one.tokens for one in found}) == len(found) == 3


def test_scores_that_are_no_numbers_are_refused() -> None:
    first, advance, _ = decoder(["x"], 5, 1.0)
    with pytest.raises(AuditError, match="NaN"):
        beam_search(first * torch.nan, advance, 2, ENDS, 4)


def test_what_is_given_is_not_changed() -> None:
    first, advance, _ = decoder(["x"], 5, 1.0)
    before = first.double()
    beam_search(before, advance, 2, ENDS, 4, barred=(3,))
    assert torch.equal(before, first.double())

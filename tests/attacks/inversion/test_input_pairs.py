"""Pairs of tokens and boxes by equal sums of signals: certain ones are true, and what is open is called possible."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.bag import bag_of
from pfl_audit.attacks.inversion.bag_readers import box_of
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.controls import ALL_BOXES, PAIRS
from pfl_audit.attacks.inversion.input_span.pairs import pair
from pfl_audit.attacks.inversion.input_span.sums import Sums, of_boxes, of_tokens
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion import updates
from tests.attacks.inversion.room import Room
from tests.oracles.input_span import closed_groups

FIXTURES = Path(__file__).parents[3] / "fixtures"
Floats = NDArray[np.float64]
WIDTH = 40


@pytest.fixture(scope="module")
def room() -> Room:
    form = open_templates(FIXTURES / "templates")[0]
    return Room(open_gradient_model(str(FIXTURES / "vt5-finetuned")), (form,))


def sums(signals: dict[tuple[int, int], Floats], rng: np.random.Generator, error: float = 1e-6) -> tuple[Sums, Sums]:
    """Sums of the signals of pairs by token and by box, with errors."""
    many = [1 + max(pair[at] for pair in signals) for at in range(2)]
    values = [np.zeros((count, WIDTH)) for count in many]
    for places, signal in signals.items():
        for at in range(2):
            values[at][places[at]] += signal
    made = [
        Sums(part + error * rng.standard_normal(part.shape), np.full(len(part), error), np.ones(len(part), bool))
        for part in values
    ]
    return made[0], made[1]


def page(rng: np.random.Generator, tokens: int, boxes: int) -> dict[tuple[int, int], Floats]:
    """A random page on which every token and every box occurs, with signals of sizes apart."""
    places = {(int(rng.integers(tokens)), box) for box in range(boxes)}
    places |= {(token, int(rng.integers(boxes))) for token in range(tokens)}
    return {each: 10.0 ** rng.uniform(-1, 1) * rng.standard_normal(WIDTH) for each in places}


@pytest.mark.parametrize("seed", range(10))
def test_certain_pairs_are_those_that_the_oracle_leaves_no_choice_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    signals = page(rng, 12, 9)
    found = pair(np.ones((12, 9), bool), {}, sums(signals, rng), complete=True)
    groups = closed_groups(set(signals))
    certain = {(token, box) for tokens, boxes in groups for token in tokens for box in boxes
               if len(tokens) == 1 or len(boxes) == 1}  # fmt: skip
    possible = {(token, box) for tokens, boxes in groups for token in tokens for box in boxes}
    assert set(zip(*map(list, found.certain.nonzero()), strict=True)) == certain
    assert set(zip(*map(list, found.possible.nonzero()), strict=True)) == possible
    assert certain <= set(signals) <= possible


def test_words_of_the_form_settle_what_stands_beside_them() -> None:
    """Token 0 is in the form's box 0 and in the private box 1, with token 1: the form divides their group."""
    rng = np.random.default_rng(0)
    signals = {at: rng.standard_normal(WIDTH) for at in ((0, 0), (0, 1), (1, 1), (2, 2))}
    found = pair(np.ones((3, 3), bool), {0: frozenset({0})}, sums(signals, rng), complete=True)
    assert found.certain.tolist() == [[True, True, False], [False, True, False], [False, False, True]]
    without = pair(np.ones((3, 3), bool), {}, sums(signals, rng), complete=True)
    assert without.certain.tolist() == [[False, False, False], [False, False, False], [False, False, True]]


def test_a_token_with_another_signal_is_in_no_group() -> None:
    """A token of the answer has a signal of the decoder as well."""
    rng = np.random.default_rng(0)
    signals = {at: rng.standard_normal(WIDTH) for at in ((0, 0), (1, 1), (2, 2))}
    tokens, boxes = sums(signals, rng)
    found = pair(np.ones((3, 3), bool), {}, (tokens.less(0, rng.standard_normal(WIDTH), 0.0), boxes), complete=True)
    assert found.possible[0, 0]
    assert {(1, 1), (2, 2)} <= set(zip(*map(list, found.certain.nonzero()), strict=True))


def test_without_sums_the_span_alone_decides() -> None:
    allowed = np.array([[True, True, False], [True, True, False], [False, False, True]])
    found = pair(allowed, {}, None, complete=True)
    assert found.certain.tolist() == [[False] * 3, [False] * 3, [False, False, True]]
    assert (found.possible == allowed).all()


def test_what_may_be_missing_excludes_nothing() -> None:
    """The one token that is left for a box is not there for certain where the span may have lost another."""
    allowed = np.array([[True, True, False], [True, True, False], [False, False, True]])
    found = pair(allowed, {}, None, complete=False)
    assert not found.certain.any()
    assert (found.possible == allowed).all()


def test_sums_of_noise_are_no_pairs() -> None:
    rng = np.random.default_rng(0)
    many = [Sums(rng.standard_normal((6, WIDTH)), np.full(6, 1e-6), np.ones(6, bool)) for _ in range(2)]
    found = pair(np.ones((6, 6), bool), {}, (many[0], many[1]), complete=True)
    assert not found.certain.any()


def test_sums_are_read_from_the_gradients() -> None:
    rng = np.random.default_rng(0)
    output = np.linalg.qr(rng.standard_normal((WIDTH, 3)))[0]
    signals, placed = rng.standard_normal((5, WIDTH)), rng.standard_normal((5, WIDTH))
    boxes = of_boxes(signals.T @ placed, placed, output, 1e-12, 0.0)
    tokens = of_tokens(signals + rng.standard_normal((5, 3)) @ output.T, output, 1e-12, 0.0)
    np.testing.assert_allclose(boxes.values, tokens.values, atol=1e-10)
    assert boxes.values.shape == (5, WIDTH - 3)
    assert boxes.known.all()
    twice = of_boxes(signals.T @ placed, np.concatenate([placed, placed[:1] + placed[1:2]]), output, 1e-12, 0.0)
    assert twice.known.tolist() == [False, False, True, True, True, False]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", range(3))
def test_certain_pairs_of_a_page_are_on_it(room: Room, number: int) -> None:
    case = room.case(number)
    bag = bag_of(room.model, case)
    text = case.truths[0].text
    true = {(token, *box) for token, box in zip(text["ids"].tolist(), text["boxes"].tolist(), strict=True)}
    assert {tuple(box_of(one)) for one in bag.items[PAIRS]} <= true
    assert len(bag.items[PAIRS]) > 30  # most of them the form's
    assert {tuple(box_of(one)) for one in bag.items[ALL_BOXES]} == {each[1:] for each in true}
    lacking = true - {tuple(box_of(one)) for one in bag.items[PAIRS]}
    assert bag.candidates == 0
    assert {each[1:] for each in lacking} == {(0, 0, 1000, 1000)}  # of prompt and question


@pytest.mark.slow
def test_boxes_of_a_page_are_a_leak_and_those_of_another_page_are_none(room: Room) -> None:
    case = room.case(0)
    frozen = replace(case.seen, gradient=updates.frozen(case.seen.gradient, "shared"))
    own = room.in_any_order(replace(case, seen=frozen))
    other = room.in_any_order(room.case(0, gradient=share(room.model, [room.clients.page("batch", 1)])))
    assert own is not None
    assert other is not None
    assert (own.level, own.share) == ("leak", 1.0)
    assert other.level == "unresolved"

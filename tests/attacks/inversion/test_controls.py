"""Recoveries held against other fillings of the form: what leaks is found, and what the form gives away is no leak."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pfl_audit.attacks.inversion.bag import bag_of
from pfl_audit.attacks.inversion.bag import counts_of as bag_counts
from pfl_audit.attacks.inversion.controls import (
    ANY_ORDER,
    BOXES,
    COORDINATES,
    FILLINGS,
    TOKENS,
    Counts,
    in_any_order,
    in_place,
    inside,
    joint_p,
    pooled,
    private_tokens,
)
from pfl_audit.attacks.inversion.decision import decide
from pfl_audit.errors import AuditError
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion.conftest import save_reader
from tests.attacks.inversion.other_evidence import OTHERS, case_of
from tests.attacks.inversion.room import BUDGET, Room
from tests.attacks.inversion.template.drawn import form


def test_private_tokens_are_those_in_a_field() -> None:
    boxes = torch.tensor([[100, 100, 200, 120], [0, 0, 0, 0], [700, 100, 800, 120], [590, 100, 620, 120]])
    assert inside(boxes, [(0.05, 0.05, 0.6, 0.2)]).tolist() == [True, False, False, False]


def test_private_tokens_alone_are_counted() -> None:
    found, truth = torch.tensor([5, 6, 7, -1]), torch.tensor([5, 6, 8, 9, 9])
    private = torch.tensor([False, True, True, True, True])
    assert in_place(found, truth, private) == (1, 4)
    rows = torch.tensor([[1, 1, 2, 2], [1, 1, 2, 3]])
    assert in_place(rows, torch.tensor([[1, 1, 2, 2], [1, 1, 2, 2]]), torch.tensor([True, True])) == (1, 2)


def test_naming_every_token_is_worth_nothing() -> None:
    assert in_any_order({1, 2, 7, 8}, {2, 7, 8}, {1, 2}) == (2, 2)
    assert in_any_order(set(range(100)), {2, 7, 8}, {1, 2}) == (2, 98)
    assert in_any_order(set(), {7}, set()) == (0, 1)


def test_the_joint_test_of_two_measures_is_that_of_their_smaller_p() -> None:
    """The page is in the first place, beside 99 fillings."""
    rng = np.random.default_rng(0)
    assert joint_p([np.r_[1.0, np.zeros(99)], rng.random(100)]) == pytest.approx(0.01, abs=0.01)
    assert joint_p([np.zeros(100)]) == 1.0
    assert joint_p([]) == 1.0


def test_the_joint_test_keeps_its_level_over_all_places_of_the_page() -> None:
    """Each of 100 fillings is as likely the page as any other where nothing is recovered."""
    rng = np.random.default_rng(1)
    measures = [rng.integers(0, 6, 100) / 5, rng.random(100), rng.random(100)]
    places = (np.r_[at, np.delete(np.arange(100), at)] for at in range(100))
    ps = np.array([joint_p([values[order] for values in measures]) for order in places])
    for alpha in (0.01, 0.05, 0.1, 0.5):
        assert np.mean(ps <= alpha) <= alpha


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory, leaking: GradientModel) -> dict[str, Room]:
    folder, _ = save_reader(tmp_path_factory.mktemp("rooms"), "v3")
    forms = (form(), form(("Sum:", "Place:", "Who:")))
    return {"layoutlmv3": Room(open_gradient_model(str(folder), "cpu"), forms), "donut": Room(leaking, forms)}


KINDS = ["layoutlmv3", "donut"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_that_was_sent_is_a_leak(rooms: dict[str, Room], kind: str) -> None:
    found = rooms[kind].decision(rooms[kind].case(0))
    assert (found.level, found.share, found.p) == ("leak", 1.0, pytest.approx(1 / (1 + FILLINGS)))
    assert found.chance <= found.most < 1.0


@pytest.mark.slow
def test_the_words_of_a_batch_are_a_leak_without_their_order(rooms: dict[str, Room]) -> None:
    room = rooms["layoutlmv3"]
    case = room.case(0, batch=4)
    counts = room.counts(case)
    found = decide([counts], BUDGET)
    assert found is not None
    assert (found.level, found.measure, found.share) == ("leak", ANY_ORDER, 1.0)
    assert counts[TOKENS][0, 0] < counts[TOKENS][0, 1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", range(len(OTHERS)), ids=list(OTHERS))
@pytest.mark.parametrize("kind", KINDS)
def test_evidence_of_something_else_is_no_leak(rooms: dict[str, Room], kind: str, number: int) -> None:
    """In place, and in any order; ``tests.bench.rates`` counts how often it is one."""
    case = case_of(rooms[kind], number)
    assert rooms[kind].decision(case).level != "leak"
    assert (found := rooms[kind].in_any_order(case)) is None or found.level != "leak"


def test_of_a_form_that_was_filled_in_before_nothing_is_private(rooms: dict[str, Room]) -> None:
    """The form says what the page says: all of it comes back, and none of it counts."""
    room = rooms["layoutlmv3"]
    case, filled = room.case(0), room.clients.filled(0)
    boxes = torch.from_numpy(filled.boxes)
    template = replace(case.seen.template, words=filled.words, boxes=filled.boxes)
    known = replace(case, seen=replace(case.seen, template=template), filling=None)
    assert private_tokens((boxes * 1000).round().long(), case.seen.template).any()
    assert not private_tokens((boxes * 1000).round().long(), template).any()
    counts = room.counts(known)
    assert counts[TOKENS][0].tolist() == counts[BOXES][0].tolist() == [0, 0]
    assert decide([counts], BUDGET) is None


def test_zeros_are_refused(rooms: dict[str, Room]) -> None:
    room = rooms["layoutlmv3"]
    zeros = {name: torch.zeros_like(part) for name, part in room.case(0).seen.gradient.items()}
    with pytest.raises(AuditError, match="holds nothing of the embeddings"):
        room.decision(room.case(0, gradient=zeros))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("batch", [1, 4])
def test_every_word_of_a_batch_comes_back_in_no_order(rooms: dict[str, Room], batch: int) -> None:
    room = rooms["layoutlmv3"]
    case = room.case(0, batch=batch)
    counts = bag_counts(room.model, case, bag_of(room.model, case))
    for measure in (ANY_ORDER, COORDINATES):
        right, wanted, named = counts.pop(measure)[0].tolist()
        assert right == wanted == named > 5, measure
    assert [rows[0].tolist()[2] for rows in counts.values()] == [0] * len(counts)  # too small a model for places
    found = room.in_any_order(case)
    assert found is not None
    assert (found.level, found.share) == ("leak", 1.0)


def test_measures_of_several_observations_are_pooled() -> None:
    rng = np.random.default_rng(1)

    def counts(right: int) -> Counts:
        return np.array([[right, 4], *([int(rng.integers(0, 3)), 4] for _ in range(FILLINGS))])

    found = decide([{TOKENS: counts(3), BOXES: counts(0)} for _ in range(5)], BUDGET)
    assert found is not None
    assert (found.measure, found.right, found.level) == (TOKENS, (15, 20), "leak")
    assert decide([{TOKENS: np.zeros((1, 2), int)}], BUDGET) is None
    nothing = decide([{TOKENS: np.array([[0, 4]] * 1000)}], BUDGET)
    assert nothing is not None
    assert (nothing.level, nothing.p) == ("unresolved", 1.0)


def test_a_measure_is_pooled_over_the_updates_that_have_it() -> None:
    every, some = np.array([[1, 4], [0, 4]]), np.array([[2, 3], [1, 3]])
    parts = [{TOKENS: every}, {TOKENS: every, BOXES: some}]
    for order in (parts, parts[::-1]):
        found = pooled(order)
        assert found[TOKENS].tolist() == (2 * every).tolist()
        assert found[BOXES].tolist() == some.tolist()

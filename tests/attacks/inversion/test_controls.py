"""Recoveries held against other fillings of the form: what leaks is found, and what the form gives away is no leak."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.clients import Clients, place_template, share
from pfl_audit.attacks.inversion.closed_form import counts_of as words_of
from pfl_audit.attacks.inversion.context import Case, Observation
from pfl_audit.attacks.inversion.controls import (
    ANY_ORDER,
    BOXES,
    FILLINGS,
    TOKENS,
    Counts,
    in_any_order,
    in_place,
    inside,
    joint_p,
)
from pfl_audit.attacks.inversion.decision import Decision, decide
from pfl_audit.attacks.inversion.donut_text.recovery import recover_text
from pfl_audit.attacks.inversion.question_answer import counts_of as answers_of
from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.attacks.inversion.word_text import solve
from pfl_audit.core.verdict import Budget
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.open import open_gradient_model
from pfl_audit.progress import Silent
from tests.attacks.inversion.conftest import save_reader
from tests.attacks.inversion.template.drawn import form

BUDGET = Budget.shared(4)
RUNS = 50


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


def test_the_joint_test_keeps_its_error_rate() -> None:
    """Of 1,000 pages that are as good as any other, 50 have a p of 5 %; 72 would be 3 standard deviations too many."""
    rng = np.random.default_rng(0)
    ps = [joint_p([rng.integers(0, 6, 100) / 5, rng.random(100), rng.random(100)]) for _ in range(1000)]
    assert sum(p <= 0.05 for p in ps) <= 72
    assert joint_p([np.r_[1.0, np.zeros(99)], rng.random(100)]) == pytest.approx(0.01, abs=0.01)
    assert joint_p([np.zeros(100)]) == 1.0
    assert joint_p([]) == 1.0


class Room:
    """Clients of one form, and recoveries of what they share."""

    def __init__(self, model: GradientModel, templates: tuple[Template, ...]) -> None:
        self.model = model
        self.placed = [place_template(model, template, Silent()) for template in templates]
        self.clients = Clients(model, templates, 0, None, Silent())
        self.filling = cache(lambda page, question, number: self.clients.filling([(page, question)], number)[0])

    def case(self, number: int, batch: int = 1, gradient: Mapping[str, Tensor] | None = None) -> Case:
        """A page of the first form, or several, and their gradient or another."""
        step = len(self.placed)
        pages = [(number * batch + at) * step for at in range(batch)]
        truths = tuple(self.clients.page("document", page) for page in pages)
        shared = share(self.model, truths) if gradient is None else gradient
        asked = [truth.question for truth in truths]

        def filling(other: int) -> tuple[Any, ...]:
            return tuple(self.filling(at, question, other) for at, question in enumerate(asked))

        return Case(Observation(f"document {number}", self.placed[0], shared, batch), truths, filling)

    def counts(self, case: Case) -> dict[str, Counts]:
        """What the closed form makes of it, counted."""
        encoder, decoder = self.model.word_encoder(), self.model.text_decoder()
        if encoder is not None:
            return words_of(encoder, case, solve(self.model, case.seen))
        assert decoder is not None
        return answers_of(decoder, case, recover_text(case.seen.gradient, decoder.first_layer()))

    def decision(self, case: Case) -> Decision:
        found = decide([self.counts(case)], BUDGET)
        assert found is not None
        return found


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


def test_the_words_of_a_batch_are_a_leak_without_their_order(rooms: dict[str, Room]) -> None:
    room = rooms["layoutlmv3"]
    case = room.case(0, batch=4)
    counts = room.counts(case)
    found = decide([counts], BUDGET)
    assert found is not None
    assert (found.level, found.measure, found.share) == ("leak", ANY_ORDER, 1.0)
    assert counts[TOKENS][0, 0] < counts[TOKENS][0, 1]


def others(room: Room) -> Iterator[Case]:
    """Evidence of something else: another page, of the form or of another, noise, nothing, the pages of two others."""
    for number in range(RUNS):
        case = room.case(number)
        own = case.seen.gradient
        kind = number % 5
        if kind == 0:
            given = share(room.model, [room.clients.page("batch", number * 2)])
        elif kind == 1:
            given = share(room.model, [room.clients.page("batch", number * 2 + 1)])
        elif kind == 2:
            rng = torch.Generator().manual_seed(number)
            given = {name: torch.randn(part.shape, generator=rng) for name, part in own.items()}
        elif kind == 3:
            given = {name: torch.full_like(part, 1e-12) for name, part in own.items()}
        else:
            pages = [room.clients.page("batch", 2 * number + 40 + 2 * at) for at in range(2)]
            given = share(room.model, pages)
        yield replace(case, seen=replace(case.seen, gradient=given))


@pytest.mark.parametrize("kind", KINDS)
def test_the_evidence_of_something_else_is_no_leak(rooms: dict[str, Room], kind: str) -> None:
    """50 runs without a leak bound its rate at 5.8 % (95 %)."""
    levels = [rooms[kind].decision(case).level for case in others(rooms[kind])]
    assert "leak" not in levels
    assert levels.count("weak") <= 5  # 2.5 % are allowed; 6 of 50 have a probability of 0.1 %


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

"""Answers of a VT5's update, token by token, by the span of the decoder's first cross-attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Cause
from pfl_audit.attacks.inversion.bag import bag_of, counts_of
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.controls import ANSWERS
from pfl_audit.attacks.inversion.input_span.sequence import first_layer
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion import updates
from tests.attacks.inversion.room import Room, other_weights
from tests.attacks.inversion.updates import Update

FIXTURES = Path(__file__).parents[3] / "fixtures"
Change = Callable[[Update], Update]
HALVES: dict[str, Change] = {
    "as it is": dict,
    "bfloat16": lambda given: updates.rounded(given, torch.bfloat16),
    "float16": lambda given: updates.rounded(given, torch.float16),
}


@pytest.fixture(scope="module")
def room() -> Room:
    return Room(open_gradient_model(str(FIXTURES / "vt5-finetuned")), open_templates(FIXTURES / "templates")[:1])


def answers(case: Case) -> set[tuple[int, ...]]:
    return {tuple(truth.text["labels"].tolist()[:-1]) for truth in case.truths}


def beginnings(room: Room, case: Case) -> tuple[int, int, int]:
    """Beginnings of answers that came back, how many there are, and how many were named."""
    right, wanted, named = counts_of(room.model, case, bag_of(room.model, case))[ANSWERS][0].tolist()
    return right, wanted, named


@pytest.mark.sampled(1)
@pytest.mark.parametrize("batch", [1, 2, 4])
def test_every_answer_of_a_batch_comes_back_whole(room: Room, batch: int) -> None:
    case = room.case(0, batch)
    assert set(bag_of(room.model, case).answers) == answers(case)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*HALVES, "a step of SGD"])
@pytest.mark.parametrize("number", range(2))
def test_what_is_named_of_two_answers_is_true(room: Room, number: int, kind: str) -> None:
    case = room.case(number, 2)
    if kind in HALVES:
        given = HALVES[kind](dict(case.seen.gradient))
    else:
        given = updates.trained(room.model, case.truths, 1, updates.sgd(1e-3))
    right, wanted, named = beginnings(room, replace(case, seen=replace(case.seen, gradient=given)))
    assert right == named >= wanted / 2


def test_the_layer_is_what_the_network_computes(room: Room) -> None:
    tables, weights = room.model.word_tables(), dict(room.model.network.named_parameters())
    ids = room.case(0).truths[0].text["labels"][:-1]
    layer = first_layer(tables.decoder(), tables.causal_bias, weights)
    words = weights["language_backbone.shared.weight"].detach().double().numpy()
    parts, seen = layer.parts_of(words, np.diag(layer.second)), list[Tensor]()
    attention = room.model.network.language_backbone.decoder.block[0].layer[1].EncDecAttention
    hook = attention.q.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    with torch.no_grad():
        room.model.network.language_backbone.decoder(
            input_ids=torch.cat([torch.tensor([tables.start]), ids])[None],
            encoder_hidden_states=torch.zeros(1, 1, words.shape[1]),
        )
    hook.remove()
    row = np.array([tables.start, *ids.tolist()])
    for place in range(len(row)):
        found = parts.at(row[: place + 1], place, row[[place]])[0]
        own = seen[0][0, place].double().numpy()
        assert found / np.linalg.norm(found) == pytest.approx(own / np.linalg.norm(own), abs=1e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["noise", "another model", "another page"])
def test_what_is_not_of_the_page_names_no_answer_of_it(room: Room, kind: str) -> None:
    case, other = room.case(0), room.case(1)
    given = dict(other.seen.gradient)
    if kind == "noise":
        generator = torch.Generator().manual_seed(0)
        given = {name: part.std() * torch.randn(part.shape, generator=generator) for name, part in given.items()}
    elif kind == "another model":
        with other_weights(room.model):
            given = updates.gradient(room.model, case.truths)
    found = bag_of(room.model, replace(case, seen=replace(case.seen, gradient=given))).answers
    assert set(found) == (answers(other) if kind == "another page" else set())


@pytest.mark.slow
def test_a_decoder_that_is_not_shared_is_the_cause(room: Room) -> None:
    case = room.case(0)
    seen = replace(case.seen, gradient=updates.frozen(case.seen.gradient, "decoder."))
    bag = bag_of(room.model, replace(case, seen=seen))
    assert not bag.answers
    assert any(limit.cause is Cause.MISSING and "decoder" in limit.words for limit in bag.limits)

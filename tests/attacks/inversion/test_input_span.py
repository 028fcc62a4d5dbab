"""Tokens and boxes of a VT5's update by the span of its inputs: what is there is found, and nothing else is."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from pfl_audit.attacks.inversion.analytic.limits import Cause
from pfl_audit.attacks.inversion.bag import bag_of
from pfl_audit.attacks.inversion.bag_readers import box_of
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.controls import ALL_BOXES, ANY_ORDER
from pfl_audit.attacks.inversion.input_span.basis import bases_of
from pfl_audit.attacks.inversion.input_span.boxes import boxes_in
from pfl_audit.attacks.inversion.input_span.inputs import InputParts
from pfl_audit.attacks.inversion.input_span.recovery import Spanned, inputs_of_span
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.errors import AuditError
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.vt5.gradients import Vt5Gradients
from tests.attacks.inversion import updates
from tests.attacks.inversion.room import Room, other_weights
from tests.oracles.input_span import inputs_of, pairs_beside_inputs

FIXTURES = Path(__file__).parents[3] / "fixtures"
SINGLE = 3 * 2.0**-24
Change = Callable[[updates.Update], updates.Update]


@pytest.fixture(scope="module")
def room() -> Room:
    form = open_templates(FIXTURES / "templates")[0]
    return Room(open_gradient_model(str(FIXTURES / "vt5-finetuned")), (form,))


def spanned(room: Room, case: Case, update: updates.Update | None = None, steps: int = 1) -> Spanned:
    """What the spans of an update show, with the coordinates of the pages known."""
    assert isinstance(room.model, Vt5Gradients)
    tables = room.model.word_tables()
    boxes = torch.cat([truth.text["boxes"] for truth in case.truths])
    edges = {name: frozenset(boxes[:, at::2].flatten().tolist()) for at, name in enumerate("xy")}
    given = dict(case.seen.gradient) if update is None else update
    weights = dict(room.model.network.named_parameters())
    return inputs_of_span(given, tables.summed(), weights, edges, tables.rows(case.seen.template.boxes))


def true_tokens(case: Case) -> set[int]:
    return {token for truth in case.truths for token in truth.text["ids"].tolist()}


def true_boxes(case: Case) -> set[tuple[int, ...]]:
    return {tuple(box) for truth in case.truths for box in truth.text["boxes"].tolist()}


def boxes_of(found: Spanned) -> set[tuple[int, ...]]:
    return set() if found.boxes is None else {tuple(box) for box in found.boxes.tolist()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("batch", [1, 2])
def test_pairs_are_those_of_the_oracle(room: Room, batch: int) -> None:
    case = room.case(0, batch=batch)
    found = spanned(room, case).allowed
    assert found is not None
    assert isinstance(room.model, Vt5Gradients)
    named = {
        (int(found.tokens[token]), *found.boxes[box].tolist())
        for token, box in zip(*found.pairs.nonzero(), strict=True)
    }
    assert named == pairs_beside_inputs(room.model, list(case.truths))
    assert set(found.tokens.tolist()) == true_tokens(case)


def test_groups_are_tokens_and_boxes_of_one_chain(room: Room) -> None:
    case = room.case(0)
    found = spanned(room, case).allowed
    assert found is not None
    token = {one: at for at, one in enumerate(found.tokens.tolist())}
    box = {tuple(one): at for at, one in enumerate(found.boxes.tolist())}
    text = case.truths[0].text
    assert all(
        found.pairs[token[one], box[tuple(place)]]
        for one, place in zip(text["ids"].tolist(), text["boxes"].tolist(), strict=True)
    )
    share_a_box = found.pairs.astype(int) @ found.pairs.T.astype(int) > 0
    assert (share_a_box == (found.pairs[:, None] == found.pairs[None]).all(axis=2)).all()
    assert not share_a_box.all()


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_boxes_are_those_of_the_oracle(room: Room, shift: float) -> None:
    """Against every box of few coordinates, written out; LayerNorm with a shift, too."""
    assert isinstance(room.model, Vt5Gradients)
    names = room.model.word_tables().summed()
    parts = InputParts.of(names, dict(room.model.network.named_parameters()))
    parts = replace(parts, shift=parts.shift + shift)
    rng = np.random.default_rng(0)
    edges = np.array([0, 7, 60, 200, 420, 1000])
    every = np.array([box for box in product(edges, repeat=4) if box[0] <= box[2] and box[1] <= box[3]])
    known = np.unique(names.pairs.numpy()[:, 1:], axis=0)
    true = np.concatenate([known, every[rng.choice(len(every), 9, replace=False)]])
    gradient = rng.standard_normal((192, len(true))) @ parts.placed(true)
    gradient += 1e-6 * np.abs(gradient).mean() * rng.standard_normal(gradient.shape)
    bases = bases_of(gradient, SINGLE)
    found = boxes_in(bases, parts, (edges, edges), known[:0], known, rng)
    excess = bases[0].excess_of(parts.placed(every))
    assert {tuple(box) for box in found.boxes.tolist()} == {tuple(box) for box in every[excess < 2].tolist()}
    assert {tuple(box) for box in true.tolist()} <= {tuple(box) for box in found.boxes.tolist()}


CHANGES: dict[str, Change] = {
    "clipped": updates.clipped,
    "bfloat16": lambda given: updates.rounded(given, torch.bfloat16),
    "float16": lambda given: updates.rounded(given, torch.float16),
    "int8 by row": lambda given: updates.integers(given, by_row=True),
    "NF4": updates.nf4,
    "noise": lambda given: updates.noisy(given, 1e-4),
    "word table frozen": lambda given: updates.frozen(given, "shared"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_all_tokens_and_boxes_come_back_none_false(room: Room, kind: str) -> None:
    case = room.case(0)
    found = spanned(room, case, CHANGES[kind](dict(case.seen.gradient)))
    assert found.allowed is not None
    assert set(found.allowed.tokens.tolist()) == true_tokens(case)
    assert boxes_of(found) == true_boxes(case)
    assert not found.limits


@pytest.mark.parametrize("steps", [1, 5])
def test_steps_of_sgd_leave_the_span(room: Room, steps: int) -> None:
    case = room.case(0)
    found = spanned(room, case, updates.trained(room.model, case.truths, steps, updates.sgd(1e-3)), steps)
    assert found.allowed is not None
    assert set(found.allowed.tokens.tolist()) <= true_tokens(case)
    assert len(found.allowed.tokens) > 0.9 * len(true_tokens(case))
    assert boxes_of(found) <= true_boxes(case)
    assert len(boxes_of(found)) > 0.9 * len(true_boxes(case))


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (updates.sparse, Cause.SPARSE),
        (lambda given: updates.noisy(given, 1.0), Cause.NOISE),
        (lambda given: {name: torch.randn(part.shape) for name, part in given.items()}, Cause.NOISE),
    ],
)
def test_what_hides_the_inputs_is_named(room: Room, kind: Change, cause: Cause) -> None:
    case = room.case(0)
    found = spanned(room, case, kind(dict(case.seen.gradient)))
    assert (found.boxes, found.allowed) == (None, None)
    assert {limit.cause for limit in found.limits} == {cause}


def test_steps_of_adam_have_no_span(room: Room) -> None:
    case = room.case(0)
    found = spanned(room, case, updates.trained(room.model, case.truths, 1, updates.adamw(1e-4)))
    assert (found.boxes, found.allowed) == (None, None)
    assert [limit.cause for limit in found.limits] == [Cause.SIGNS]


def test_too_many_inputs_are_said(room: Room) -> None:
    rng = np.random.default_rng(0)
    case = room.case(0)
    given = dict(case.seen.gradient)
    inputs = np.exp(2 * rng.standard_normal((250, 1))) * rng.standard_normal((250, 192))
    for name, part in given.items():
        if name.endswith(("q.weight", "k.weight", "v.weight")) and "language_backbone.encoder.block.0." in name:
            given[name] = torch.from_numpy(rng.standard_normal((len(part), 250)) @ inputs).float()
    found = spanned(room, case, given)
    assert found.allowed is None
    assert boxes_of(found) == true_boxes(case)
    assert [limit.cause for limit in found.limits] == [Cause.CROWDED]
    assert "too many inputs for the width" in str(found.limits[0])


@pytest.mark.slow
@pytest.mark.parametrize(("form", "number"), [(0, 1), (3, 1)])
def test_a_crowded_update_names_no_box_that_is_on_no_page(room: Room, form: int, number: int) -> None:
    """Of eight pages: 558 boxes are in the span, 60 on a page, or a false one is near it; nearly no width is left."""
    crowded = Room(room.model, open_templates(FIXTURES / "templates")[form : form + 1])
    case = crowded.case(number, batch=8)
    bag = bag_of(room.model, case)
    assert {tuple(box_of(one)) for one in bag.items[ALL_BOXES]} <= true_boxes(case)
    assert len(bag.items[ALL_BOXES]) > 0.7 * len(true_boxes(case))


def test_an_update_of_another_model_is_noticed(room: Room) -> None:
    case = room.case(0)
    with other_weights(room.model):
        given = share(room.model, [room.clients.page("batch", 1)])
    found = spanned(room, case, given)
    assert (found.boxes, found.allowed) == (None, None)
    assert {limit.cause for limit in found.limits} == {Cause.OTHER}


def test_without_tables_the_tokens_of_the_form_and_the_question_come_back(room: Room) -> None:
    case = room.case(0)
    given = updates.frozen(dict(case.seen.gradient), "shared", "position_embeddings")
    bag = bag_of(room.model, replace(case, seen=replace(case.seen, gradient=given)))
    assert bag.items[ANY_ORDER] <= true_tokens(case) | {0}  # the start of the answer
    assert len(bag.items[ANY_ORDER]) > 0.8 * len(true_tokens(case))
    assert "missing" in {limit.cause for limit in bag.limits}


def test_an_update_of_other_layers_alone_is_refused(room: Room) -> None:
    case = room.case(0)
    given = updates.alone(dict(case.seen.gradient), "DenseReluDense")
    with pytest.raises(AuditError, match="nothing of the tables"):
        bag_of(room.model, replace(case, seen=replace(case.seen, gradient=given)))


def test_rank_is_that_of_the_inputs(room: Room) -> None:
    case = room.case(0)
    assert isinstance(room.model, Vt5Gradients)
    values = np.linalg.svd(inputs_of(room.model, list(case.truths)), compute_uv=False)
    names = room.model.word_tables().summed().attention
    matrices = [part for name, part in case.seen.gradient.items() if name.endswith(names)]
    basis = bases_of(torch.cat(matrices).double().numpy(), SINGLE)[0]
    assert basis.rank == int((values > 1e-5 * values[0]).sum())


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

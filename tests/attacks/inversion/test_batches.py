"""Separation of batches: places, pages, certificate; and what must not come back."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from pfl_audit.attacks.inversion.analytic.limits import Cause
from pfl_audit.attacks.inversion.bag import Bagged
from pfl_audit.attacks.inversion.batches.certificate import ERROR, error_of
from pfl_audit.attacks.inversion.batches.inputs import TextInputs
from pfl_audit.attacks.inversion.batches.pages import page_with
from pfl_audit.attacks.inversion.batches.places import Parts, alone, places_in
from pfl_audit.attacks.inversion.batches.recovery import Separated, separate
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.controls import ANY_ORDER, PAGES, PLACES, WORDS
from pfl_audit.attacks.inversion.input_span.basis import bases_of
from pfl_audit.attacks.inversion.present_bag import every, extent
from pfl_audit.attacks.inversion.word_text import blank, solve
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion import updates
from tests.attacks.inversion.batch_models import FORMS, save_model
from tests.attacks.inversion.room import Room, other_weights


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Room:
    return Room(open_gradient_model(str(save_model(tmp_path_factory.mktemp("blind"), 192)), "cpu"), FORMS)


def separated(room: Room, case: Case) -> Separated:
    encoder = room.model.word_encoder()
    assert encoder is not None
    return separate(room.model, encoder, case.seen, solve(room.model, case.seen).present.numpy())


def pages_of(case: Case) -> list[np.ndarray]:
    columns = [
        (text["input_ids"], torch.arange(len(text["input_ids"])), text["token_type_ids"], *text["bbox"].T)
        for text in (truth.text for truth in case.truths)
    ]
    return [torch.stack(some, dim=1).numpy() for some in columns]


def rows_of(pages: list[np.ndarray]) -> set[tuple[int, ...]]:
    return {tuple(row) for page in pages for row in page.tolist()}


def same_pages(found: Separated, pages: list[np.ndarray]) -> bool:
    return {page.tobytes() for page in found.pages} == {page.astype(np.int64).tobytes() for page in pages}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("batch", [2, 4])
def test_every_page_of_a_batch_comes_back_and_is_certified(room: Room, batch: int) -> None:
    case = room.case(0, batch=batch)
    found = separated(room, case)
    assert found.certified
    assert found.error is not None
    assert found.error < 1e-5
    assert same_pages(found, pages_of(case))
    assert {tuple(row) for row in found.placed.tolist()} == rows_of(pages_of(case))


def test_every_page_of_a_sum_of_clients_comes_back(room: Room) -> None:
    case = room.case(1, batch=3)
    summed = updates.added([share(room.model, [one]) for one in case.truths])
    assert same_pages(separated(room, room.case(1, batch=3, gradient=summed)), pages_of(case))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_leaves_no_false_place(room: Room, kind: torch.dtype) -> None:
    case = room.case(0, batch=2)
    found = separated(room, room.case(0, batch=2, gradient=updates.rounded(case.seen.gradient, kind)))
    assert {tuple(row) for row in found.placed.tolist()} <= rows_of(pages_of(case))


def test_another_page_leaves_the_gradient_unexplained(room: Room) -> None:
    case = room.case(0, batch=2)
    encoder = room.model.word_encoder()
    assert encoder is not None
    pages = pages_of(case)
    own = np.flatnonzero((pages[0][:18, 3:] != pages[1][:18, 3:]).any(axis=1))[-1]
    swapped = [page.copy() for page in pages]
    swapped[0][own], swapped[1][own] = pages[1][own], pages[0][own]
    error = error_of(room.model, encoder, swapped, case.seen.gradient, blank(case.seen))
    assert error_of(room.model, encoder, pages, case.seen.gradient, blank(case.seen)) < 1e-5
    assert error > 10 * ERROR


def test_noise_and_other_weights_place_nothing(room: Room) -> None:
    case = room.case(0, batch=2)
    generator = torch.Generator().manual_seed(0)
    noise = {name: torch.randn(part.shape, generator=generator) for name, part in case.seen.gradient.items()}
    with other_weights(room.model):
        other = share(room.model, case.truths)
    for update, cause in ((noise, Cause.NOISE), (other, Cause.OTHER)):
        found = separated(room, room.case(0, batch=2, gradient=update))
        assert not len(found.placed)
        assert not found.pages
        assert [limit.cause for limit in found.limits] == [cause]


def test_too_many_inputs_for_the_width_are_said(room: Room) -> None:
    found = separated(room, room.case(0, batch=32))
    assert not len(found.placed)
    assert [limit.cause for limit in found.limits] == [Cause.CROWDED]
    assert "too many inputs for the width" in found.limits[0].words


@pytest.mark.slow
def test_steps_of_adam_and_missing_tables_are_said(room: Room) -> None:
    case = room.case(0, batch=2)
    moved = updates.trained(room.model, case.truths, 1, updates.adamw(1e-4))
    frozen = updates.frozen(case.seen.gradient, "word_embeddings")
    for update, cause in ((moved, Cause.SIGNS), (frozen, Cause.MISSING)):
        found = separated(room, room.case(0, batch=2, gradient=update))
        assert not len(found.placed)
        assert [limit.cause for limit in found.limits] == [cause]


def test_a_batch_is_a_leak_and_other_pages_are_none(room: Room) -> None:
    own, others = room.case(0, batch=2), [room.clients.page("batch", number) for number in (0, 2)]
    found = room.in_any_order(own)
    assert found is not None
    assert found.level == "leak"
    control = room.in_any_order(room.case(0, batch=2, gradient=share(room.model, others)))
    assert control is not None
    assert control.level == "unresolved"


def test_pages_with_pictures_are_candidates(tmp_path: Path) -> None:
    room = Room(open_gradient_model(str(save_model(tmp_path, 192, picture=32)), "cpu"), FORMS)
    case = room.case(0, batch=2)
    found = separated(room, case)
    assert not found.certified
    assert len(found.placed)
    assert {tuple(row) for row in found.placed.tolist()} <= rows_of(pages_of(case))
    assert any("pictures" in limit.words for limit in found.limits)


@pytest.mark.slow
def test_places_are_those_that_every_combination_in_turn_is_tested_for(room: Room) -> None:
    case, encoder = room.case(0, batch=2), room.model.word_encoder()
    assert encoder is not None
    pages = pages_of(case)
    inputs = TextInputs.of(encoder.layout, encoder.first, dict(room.model.network.named_parameters()))
    rows = np.unique(np.concatenate(pages), axis=0)
    gradient = torch.cat([case.seen.gradient[name] for name in encoder.first.attention]).double().numpy()
    bases = bases_of(gradient, 3 * 2.0**-24)
    edges = {
        "x": np.unique(rows[:, [3, 5]]),
        "y": np.unique(rows[:, [4, 6]]),
        "h": np.unique(rows[:, 6] - rows[:, 4]),
        "w": np.unique(rows[:, 5] - rows[:, 3]),
    }
    tokens = np.unique(rows[:, 0])[:4]
    parts = Parts(tokens, np.arange(9), np.zeros(1, np.int64), edges)
    start = np.array([[encoder.first.start, 0, 0, 0, 0, 0, 0]])
    found = places_in(bases, inputs, parts, start, np.random.default_rng(0))
    slow = [
        (token, position, 0, left, top, right, bottom)
        for token, position in product(tokens.tolist(), range(9))
        for left, right in product(edges["x"].tolist(), repeat=2)
        for top, bottom in product(edges["y"].tolist(), repeat=2)
        if right - left in edges["w"] and bottom - top in edges["h"]
    ]
    every = np.array(slow)
    inside = bases[0].excess_of(inputs.inputs(every)) < 2.0
    assert rows_of([found.places]) == rows_of([every[inside], start])


def test_inputs_are_what_the_first_layer_is_given(room: Room) -> None:
    encoder, case = room.model.word_encoder(), room.case(0, batch=2)
    assert encoder is not None
    held = []
    layer = dict(room.model.network.named_modules())[encoder.first.attention[0].removesuffix(".weight")]
    with layer.register_forward_pre_hook(lambda _, given: held.append(given[0][0])), torch.no_grad():
        room.model.loss(blank(case.seen)[None], [case.truths[0].text])
    inputs = TextInputs.of(encoder.layout, encoder.first, dict(room.model.network.named_parameters()))
    np.testing.assert_allclose(inputs.inputs(pages_of(case)[0]), held[0].numpy(), atol=1e-5)


def test_a_place_is_certain_where_no_combination_makes_it() -> None:
    box, other = (1, 2, 3, 4), (5, 6, 7, 9)
    square = [(10, 1, 0, *box), (10, 2, 0, *other), (11, 1, 0, *box), (11, 2, 0, *other)]
    lonely = (12, 3, 0, 20, 21, 22, 25)
    assert alone(np.array([*square, lonely])).tolist() == [False] * 4 + [True]


def test_the_page_of_a_place_is_the_one_in_the_span_of_a_mixing_layer() -> None:
    rng = np.random.default_rng(0)
    states, mixer = rng.standard_normal((43, 64)), rng.standard_normal((64, 64)) / 8
    pages = np.zeros((2, 6, 7), np.int64)
    pages[:, :, 0], pages[:, :, 1] = np.arange(12).reshape(2, 6), np.arange(6)

    def mixed(sequences: np.ndarray) -> np.ndarray:
        own = states[sequences[:, :, 0]]
        return np.asarray(own + np.tanh(own.mean(axis=1) @ mixer)[:, None])

    given = mixed(pages).reshape(-1, 64)
    basis = bases_of(rng.standard_normal((200, 12)) @ given, 1e-8)[0]
    options = [np.concatenate([pages[:, at], [[12 + 6 * at, at, 0, 0, 0, 0, 0]]]) for at in range(6)]
    for page in pages:
        found = page_with(page[2], options, mixed, basis, np.random.default_rng(1))
        assert (found.page == page).all()
        assert found.excess < 3


def test_measures_are_of_private_fields(room: Room) -> None:
    from pfl_audit.attacks.inversion.bag import bag_of, counts_of

    case = room.case(0, batch=2)
    counts = counts_of(room.model, Case(case.seen, case.truths), bag_of(room.model, case))
    right, wanted, named = counts[PLACES][0].tolist()
    assert right == wanted == named > 0
    assert counts[PAGES][0].tolist() == [2, 2, 2]


def test_pages_whose_gradient_is_no_number_are_candidates(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the model is so sure of them that it has none."""
    monkeypatch.setattr("pfl_audit.attacks.inversion.batches.recovery.error_of", lambda *_: float("nan"))
    found = separated(room, room.case(0, batch=2))
    assert found.pages
    assert not found.certified


def test_too_many_tokens_at_positions_are_said_even_without_a_box(room: Room) -> None:
    case, encoder = room.case(0, batch=2), room.model.word_encoder()
    assert encoder is not None
    update = dict(case.seen.gradient)
    name = next(name for name in update if name.endswith("w_position_embeddings.weight"))
    update[name] = torch.zeros_like(update[name]).index_fill(0, torch.tensor([1023]), 1.0)
    found = separate(room.model, encoder, replace(case.seen, gradient=update), np.arange(1 << 20))
    assert [limit.cause for limit in found.limits] == [Cause.CROWDED]


def test_pages_without_anything_private_are_no_whole_pages() -> None:
    nothing = Bagged("document 1", 2, {PAGES: (0, 0, 0)}, {}, {}, ())
    whole = Bagged("document 2", 2, {PAGES: (2, 2, 2)}, {}, {}, ())
    lines = Bagged("document 3", 1, {ANY_ORDER: (9, 9, 9)}, {}, {}, ())
    assert every((whole,), WORDS, PAGES)
    assert not every((whole, nothing), WORDS, PAGES)
    assert not every((whole, lines), WORDS, PAGES)
    assert extent((whole,), all_words=True) == ": the whole text of the pages."
    assert extent((lines,), all_words=True) == ": every word of the pages, not its order."
    assert extent((lines,), all_words=False) == ", in no order."
    some = Bagged("document 4", 1, {ANY_ORDER: (9, 9, 9), PLACES: (3, 9, 3)}, {}, {}, ())
    assert extent((lines, some), all_words=True) == "."

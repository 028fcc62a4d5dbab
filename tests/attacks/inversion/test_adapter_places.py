"""Adapters of a Donut and of a LayoutLMv3: tokens of the page come back at their positions, and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pfl_audit.attacks.inversion.adapters.decoder import added_up
from pfl_audit.attacks.inversion.adapters.positioned import AddedUp, placed_tokens
from pfl_audit.attacks.inversion.adapters.rows import Halves, halves_of
from pfl_audit.attacks.inversion.analytic.limits import Cause
from pfl_audit.attacks.inversion.analytic.noise import Noise, noise_of
from pfl_audit.attacks.inversion.bag import bag_of, counts_of
from pfl_audit.attacks.inversion.batches.inputs import TextInputs
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.controls import ANY_ORDER, COORDINATES
from pfl_audit.attacks.inversion.decision import decide
from pfl_audit.attacks.inversion.donut_text.recovery import How, recover_text
from pfl_audit.attacks.inversion.word_text import solve
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion import updates
from tests.attacks.inversion.batch_models import save_model
from tests.attacks.inversion.conftest import save_reader
from tests.attacks.inversion.room import BUDGET, Room, other_weights
from tests.attacks.inversion.template.drawn import form

FIXTURES = Path(__file__).parents[3] / "fixtures"
FORMS = (form(), form(("Sum:", "Place:", "Who:")))
UP = 0.02
Change = Callable[[updates.Update], updates.Update]
BOTH = pytest.mark.parametrize("kind", ["Donut", "LayoutLMv3"])


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Room]:
    @cache
    def of(kind: str) -> Room:
        if kind == "Donut":
            return Room(open_gradient_model(str(FIXTURES / "donut")), FORMS)
        folder = tmp_path_factory.mktemp("reader")
        if kind == "LayoutLMv3 without pages":
            return Room(open_gradient_model(str(save_model(folder, 192))), FORMS)
        return Room(open_gradient_model(str(save_reader(folder, "v3")[0])), FORMS)

    return of


def later(of: Case, change: Change = lambda given: given, *, rank: int = 6, up: float = UP) -> Case:
    """The same pages, whose client sends adapters with halves B that are not zero, and the tables of a LayoutLMv3."""
    made = updates.adapters(of.seen.gradient, rank=rank, up=up)
    return replace(of, seen=replace(of.seen, gradient=change(made)))


def read(room: Room, case: Case) -> SimpleNamespace:
    """What came back, beside what was sent: right, wrong and all tokens in place; present, false and all tokens."""
    encoder, decoder = room.model.word_encoder(), room.model.text_decoder()
    if encoder is not None:
        found = solve(room.model, case.seen)
        got, ids = found.tokens, torch.cat([encoder.tokens(each.text) for each in case.truths])
    else:
        assert decoder is not None
        text = recover_text(case.seen.gradient, decoder.first_layer())
        assert text.how is How.ADAPTERS
        found, got, ids = text, text.ids, torch.cat([decoder.ids(each.text) for each in case.truths])
    count = min(len(got), len(ids))
    same, known = got[:count] == ids[:count], got[:count] >= 0
    present, own = set(found.present.tolist()), set(ids.tolist())
    causes = {limit.cause for limit in found.limits if limit.words.startswith("tokens")}
    return SimpleNamespace(
        right=int(same.sum()), wrong=int((known & ~same).sum()), all=len(ids), length=len(got),
        present=len(present & own), false=len(present - own), different=len(own), causes=causes,
        limits=[limit.words for limit in found.limits],
    )  # fmt: skip


@BOTH
@pytest.mark.parametrize("page", range(5))
def test_all_tokens_come_back_in_place_and_no_other(rooms: Callable[[str], Room], kind: str, page: int) -> None:
    room = rooms(kind)
    got = read(room, later(room.case(page)))
    assert got.right == got.all == got.length > 20
    assert got.present == got.different > 12  # more than the adapters have rows
    assert (got.wrong, got.false, got.causes) == (0, 0, set())


@pytest.mark.sampled(1)
@BOTH
def test_the_words_of_a_later_round_are_a_leak(rooms: Callable[[str], Room], kind: str) -> None:
    room = rooms(kind)
    case = later(room.case(0))
    decision = room.in_any_order(case)
    assert decision is not None
    assert decision.level == "leak"
    assert room.decision(case).level == "leak"


@BOTH
def test_halves_that_a_step_of_adam_made_are_enough(rooms: Callable[[str], Room], kind: str) -> None:
    room = rooms(kind)
    of = room.case(1)
    other = [room.clients.page("training", 8)]
    made = updates.later_round(room.model, of.truths, other)
    got = read(room, replace(of, seen=replace(of.seen, gradient=made)))
    assert got.present == got.different
    assert (got.wrong, got.false) == (0, 0)


@BOTH
def test_the_first_round_gives_no_tokens(rooms: Callable[[str], Room], kind: str) -> None:
    room = rooms(kind)
    case = later(room.case(0), up=0.0)
    got = read(room, case)
    assert (got.right, got.present, got.false, got.causes) == (0, 0, 0, {Cause.FIRST})
    assert Cause.FIRST in {limit.cause for limit in bag_of(room.model, case).limits}
    assert room.decision(case).level == ("unresolved" if kind == "Donut" else "leak")  # tables of a LayoutLMv3: boxes


@BOTH
@pytest.mark.parametrize("rank", [1, 2])
def test_fewer_rows_are_enough(rooms: Callable[[str], Room], kind: str, rank: int) -> None:
    room = rooms(kind)
    got = read(room, later(room.case(3), rank=rank))
    assert (got.wrong, got.false) == (0, 0)
    assert got.present == got.different or got.causes == {Cause.CROWDED}


@pytest.mark.sampled(4)
@BOTH
@pytest.mark.parametrize(
    ("change", "least"),
    [
        (updates.clipped, 1.0),
        (lambda given: updates.rounded(given, torch.float16), 0.0),
        (lambda given: updates.rounded(given, torch.bfloat16), 0.0),
        (lambda given: updates.integers(given, by_row=True), 0.0),
        (updates.nf4, 0.0),
        (lambda given: updates.noisy(given, 1e-6), 0.0),
        (lambda given: updates.noisy(given, 1e-2), 0.0),
    ],
)
def test_what_is_done_to_adapters_names_no_false_token(
    rooms: Callable[[str], Room], kind: str, change: Change, least: float
) -> None:
    room = rooms(kind)
    got = read(room, later(room.case(4), change))
    assert (got.wrong, got.false) == (0, 0)
    assert got.present >= least * got.different
    assert got.present == got.different or got.causes


@BOTH
def test_quantised_adapters_are_called_quantised(rooms: Callable[[str], Room], kind: str) -> None:
    room = rooms(kind)
    got = read(room, later(room.case(4), lambda given: updates.integers(given, by_row=True)))
    assert got.causes == {Cause.QUANTISED}


@pytest.mark.sampled(1)
@BOTH
@pytest.mark.parametrize("of", ["another page", "another form", "another model", "noise"])
def test_what_is_not_of_the_pages_is_no_leak(rooms: Callable[[str], Room], kind: str, of: str) -> None:
    """Five pages together, as in the bench: tokens of one other page may coincide with those of a page by chance."""
    room, parts = rooms(kind), []
    for page in range(5):
        control = not_of_the_page(room, room.case(page), of, page)
        if of in ("another model", "noise"):
            got = read(room, control)
            assert (got.present, got.false, got.right) == (0, 0, 0)
            assert got.causes
            assert Cause.FIRST not in got.causes
        parts.append(room.counts(control))
    decision = decide(parts, BUDGET)
    assert decision is not None
    assert decision.level != "leak"


def not_of_the_page(room: Room, case: Case, of: str, page: int) -> Case:
    """The same case with adapters that are of another page, of another model, or of nothing."""
    other = room.clients.page("batch", 2 * page + (of == "another form"))
    if of == "another model":
        with other_weights(room.model, page):
            given = share(room.model, [other])
    else:
        given = share(room.model, [other])
    control = later(replace(case, seen=replace(case.seen, gradient=given)))
    if of != "noise":
        return control
    generator = torch.Generator().manual_seed(page)
    quiet = {name: torch.randn(part.shape, generator=generator) for name, part in control.seen.gradient.items()}
    return replace(control, seen=replace(control.seen, gradient=quiet))


def test_words_of_several_samples_of_a_donut_come_back_and_no_false_place(rooms: Callable[[str], Room]) -> None:
    room = rooms("Donut")
    for batch in (2, 4):
        got = read(room, later(room.case(0, batch=batch)))
        assert got.present == got.different
        assert got.false == 0
        assert Cause.MIXED in got.causes


def test_adapters_of_the_page_encoder_alone_say_what_is_missing(rooms: Callable[[str], Room]) -> None:
    room = rooms("Donut")
    case = later(room.case(0), lambda given: {name: part for name, part in given.items() if "encoder.enc" in name})
    assert case.seen.gradient
    got = read(room, case)
    assert (got.right, got.present) == (0, 0)
    assert any("adapters of the decoder's first self-attention" in words for words in got.limits)
    assert Cause.MISSING in {limit.cause for limit in bag_of(room.model, case).limits}


def test_a_layoutlm_without_tables_beside_adapters(rooms: Callable[[str], Room]) -> None:
    """Patches of the page may have any direction; a model that sees no page gives its words by adapters alone."""
    alone: Change = lambda given: updates.alone(given, "lora_")  # noqa: E731
    room = rooms("LayoutLMv3")
    case = later(room.case(0), alone)
    got = read(room, case)
    assert (got.present, got.false) == (0, 0)
    assert any("no gradient of the patch projection" in words for words in got.limits)
    assert Cause.MISSING in {limit.cause for limit in bag_of(room.model, case).limits}
    blind = rooms("LayoutLMv3 without pages")
    for page in range(2):
        got = read(blind, later(blind.case(page), alone))
        assert got.right == got.all > 15
        assert (got.wrong, got.false) == (0, 0)


def test_coordinates_come_from_tables_that_are_shared_without_positions(rooms: Callable[[str], Room]) -> None:
    room = rooms("LayoutLMv3")
    encoder = room.model.word_encoder()
    assert encoder is not None
    case = later(room.case(0), lambda given: updates.frozen(given, "embeddings.position_e"), up=0.0)
    bag = bag_of(room.model, case)
    assert len(bag.items[COORDINATES]) == len(bag_of(room.model, room.case(0)).items[COORDINATES]) > 10
    assert not bag.items[ANY_ORDER]


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_a_difference_of_weights_is_read_without_its_decay(rooms: Callable[[str], Room], decay: float) -> None:
    """Of a LayoutLMv3 the tables show the decay; of a Donut the halves A, of which it is a share, are taken out."""
    for kind in ("Donut", "LayoutLMv3"):
        room = rooms(kind)
        of, generator = room.case(1), torch.Generator().manual_seed(1)
        own = {name: part.detach() for name, part in room.model.network.named_parameters()}
        gradient = updates.adapters(of.seen.gradient, up=UP)
        begun = {
            name: own[name] if name in own else 0.05 * torch.randn(part.shape, generator=generator)
            for name, part in gradient.items()
        }
        moved = {name: (part - 0.05 * (gradient[name] + decay * part)) - part for name, part in begun.items()}
        case = replace(of, seen=replace(of.seen, gradient=moved, weights=own | begun))
        bag, pages = bag_of(room.model, case), replace(case, filling=None)
        right, wanted, named = counts_of(room.model, pages, bag)[ANY_ORDER][0].tolist()
        assert right == named
        assert right >= 0.9 * wanted > 3


def test_an_explanation_without_a_position_is_refused(rooms: Callable[[str], Room]) -> None:
    """The form's last position left out is one vector, which many tokens explain together: the sums show it."""
    room = rooms("Donut")
    decoder = room.model.text_decoder()
    assert decoder is not None
    layer = decoder.first_layer()
    case = later(room.case(0))
    halves = halves_of(case.seen.gradient, layer.parameters.attention, layer.width)
    assert halves is not None
    parts, noise = added_up(layer), noise_of([], halves.down, None)
    ids = decoder.ids(case.truths[0].text)
    short = placed_tokens(halves, replace(parts, places=len(ids) - 1), noise)
    assert not len(short.present)
    assert {limit.cause for limit in short.limits} == {Cause.CROWDED}
    whole = placed_tokens(halves, replace(parts, places=len(ids)), noise)
    assert whole.ids.tolist() == ids.tolist()


def test_rows_of_inputs_are_combinations_of_the_parts(rooms: Callable[[str], Room]) -> None:
    """What LayerNorm leaves of tokens and positions, and its own directions, make up every input exactly."""
    room = rooms("LayoutLMv3")
    encoder = room.model.word_encoder()
    assert encoder is not None
    inputs = TextInputs.of(encoder.layout, encoder.first, dict(room.model.network.named_parameters()))
    places = np.array([[5, 0, 0, 0, 0, 0, 0], [9, 1, 0, 10, 20, 30, 40]])
    sums, own = inputs.linear(inputs.words(places) + inputs.boxes(places[:, 3:]))
    for vector, part in zip(inputs.inputs(places), sums, strict=True):
        basis = np.concatenate([part[None], own])
        left = vector - np.linalg.lstsq(basis.T, vector, rcond=None)[0] @ basis
        assert np.linalg.norm(left) < 1e-9 * np.linalg.norm(vector)


@pytest.mark.parametrize("seed", range(6))
def test_random_inputs_are_placed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words, positions, own = (rng.standard_normal((count, 60)) for count in (200, 30, 3))
    ids, factors = rng.integers(0, 200, 12), rng.uniform(0.5, 2, (12, 1))
    inputs = factors * (words[ids] + positions[:12]) + rng.standard_normal((12, 3)) @ own
    rows = rng.standard_normal((8, 12)) @ inputs
    halves = Halves(torch.from_numpy(rows), torch.zeros(8, dtype=torch.float64), (), 8)
    parts = AddedUp(words, positions, (own,), ("3 others",), np.zeros((0, 60)))
    found = placed_tokens(halves, parts, Noise(0.0, 1e-9, everywhere=False))
    assert found.ids.tolist() == ids.tolist()
    assert set(found.present.tolist()) == set(ids.tolist())
    assert not found.limits

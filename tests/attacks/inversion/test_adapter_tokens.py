"""Tokens of adapters' gradients: those of the page are found, nothing else is, and what ends it is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pfl_audit.attacks.inversion.adapters.certainty import certain
from pfl_audit.attacks.inversion.adapters.explanation import outside_of
from pfl_audit.attacks.inversion.adapters.likeliest import likeliest
from pfl_audit.attacks.inversion.adapters.pursuit import LEAST_OUTSIDE, pursue
from pfl_audit.attacks.inversion.adapters.recovery import span_of_patches
from pfl_audit.attacks.inversion.adapters.rows import adapted_layer, halves_of, rounding_of_matrices
from pfl_audit.attacks.inversion.analytic.limits import Cause
from pfl_audit.attacks.inversion.analytic.noise import noise_of
from pfl_audit.attacks.inversion.bag import bag_of, counts_of
from pfl_audit.attacks.inversion.captured import read_gradient
from pfl_audit.attacks.inversion.clients import batch_of
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.controls import ANY_ORDER
from pfl_audit.attacks.inversion.input_span.inputs import InputParts
from pfl_audit.attacks.inversion.matching import speaking
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.errors import AuditError
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.vt5.gradients import Vt5Gradients
from pfl_audit.progress import Silent
from tests.attacks.inversion import updates
from tests.attacks.inversion.other_evidence import OTHERS, another_page
from tests.attacks.inversion.room import Room
from tests.bench.utr import bag_of_words
from tests.oracles.input_span import inputs_of
from tests.oracles.joint_sparsity import fewest, left_of, nearest_other

FIXTURES = Path(__file__).parents[3] / "fixtures"
UP = 0.02
PATCHES = "visual_embedding.visual_emb_matcher.layers.0"
Change = Callable[[updates.Update], updates.Update]


@pytest.fixture(scope="module")
def room() -> Room:
    forms = open_templates(FIXTURES / "templates")[4:6]
    return Room(open_gradient_model(str(FIXTURES / "vt5-finetuned")), forms)


@pytest.fixture(scope="module")
def case(room: Room) -> Case:
    return later(room, room.case(0))


def later(room: Room, of: Case, change: Change = lambda given: given) -> Case:
    """The same pages, whose client sends adapters with halves B that are not zero."""
    made = change(updates.adapters(of.seen.gradient, up=UP))
    return replace(of, seen=replace(of.seen, gradient=made))


def counted(room: Room, case: Case) -> tuple[int, int, int, set[Cause]]:
    """Private tokens that came back, all of them, false ones, and causes of what is missing."""
    bag, page = bag_of(room.model, case), replace(case, filling=None)  # no other fillings: they are slow to make
    right, wanted, named = counts_of(room.model, page, bag)[ANY_ORDER][0].tolist()
    tokens = {limit.cause for limit in bag.limits if limit.words.startswith("tokens")}
    return right, wanted, named - right, tokens


def few(seed: int, vectors: int = 12, wide: int = 14, count: int = 4, rows: int = 2) -> tuple[np.ndarray, ...]:
    """Rows that are combinations of some vectors, the dictionary, and which they are."""
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((vectors, wide))
    chosen = np.sort(rng.permutation(vectors)[:count])
    return rng.standard_normal((rows, count)) @ dictionary[chosen], dictionary, chosen


@pytest.mark.parametrize("seed", range(12))
def test_the_pursuit_finds_the_set_that_the_oracle_finds(seed: int) -> None:
    rows, dictionary, chosen = few(seed, count=1 + seed % 3)
    found = pursue(rows, dictionary, 1e-9)
    assert fewest(rows, dictionary, 4, 1e-9) == [tuple(chosen.tolist())]
    assert found.ends
    assert np.sort(found.chosen).tolist() == chosen.tolist()
    assert found.left == pytest.approx(left_of(rows, dictionary[found.chosen]), abs=1e-9)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(3))
def test_likelihood_begins_what_the_pursuit_alone_does_not_end(seed: int) -> None:
    rows, dictionary, chosen = few(seed, vectors=4000, wide=150, count=120, rows=12)
    assert not pursue(rows, dictionary, 1e-6).ends
    start = likeliest(rows, dictionary, 1e-6, 100)
    assert len(set(start.tolist()) & set(chosen.tolist())) > 95
    found = pursue(rows, dictionary, 1e-6, start.tolist())
    assert found.ends
    own = found.chosen[certain(rows, dictionary, found, 1e-6)[0]]
    assert np.sort(own).tolist() == chosen.tolist()


def test_likelihood_does_not_explain_random_rows() -> None:
    rng = np.random.default_rng(0)
    rows, dictionary = rng.standard_normal((12, 60)), rng.standard_normal((500, 60))
    start = likeliest(rows, dictionary, 1e-6, 40).tolist()
    assert not pursue(rows, dictionary, 1e-6, [*start, *start[:1]]).ends
    assert not len(likeliest(np.zeros((2, 60)), dictionary, 1e-6, 40))


def test_random_rows_are_not_explained() -> None:
    rng = np.random.default_rng(0)
    found = pursue(rng.standard_normal((12, 60)), rng.standard_normal((500, 60)), 1e-6)
    assert not found.ends
    assert len(found.chosen) == 60 - LEAST_OUTSIDE
    sure, strong = certain(rng.standard_normal((12, 60)), rng.standard_normal((500, 60)), found, 1e-6)
    assert not sure.any()
    assert not strong.any()


@pytest.mark.parametrize("seed", range(4))
def test_what_another_vector_leaves_is_what_the_oracle_says(seed: int) -> None:
    """A vector is certain up to the errors that the nearest other one leaves, and not above."""
    rows, dictionary, chosen = few(seed, count=3)
    found = pursue(rows, dictionary, 1e-9)
    for place, number in enumerate(found.chosen.tolist()):
        least = nearest_other(rows, dictionary, found.chosen.tolist(), place) / 2
        assert certain(rows, dictionary, found, 0.99 * least)[0][place]
        assert not certain(rows, dictionary, found, 1.01 * least)[0][place]
        assert number in chosen


def test_a_vector_that_is_there_twice_is_not_certain() -> None:
    rows, dictionary, chosen = few(3, count=3)
    twice = np.concatenate([dictionary, dictionary[chosen[:1]]])
    found = pursue(rows, twice, 1e-9)
    sure, strong = certain(rows, twice, found, 1e-9)
    assert strong.all()
    assert set(found.chosen[sure].tolist()) == set(chosen[1:].tolist())


def test_rows_are_combinations_of_the_inputs(room: Room, case: Case) -> None:
    assert isinstance(room.model, Vt5Gradients)
    names = room.model.word_tables().summed()
    halves = halves_of(case.seen.gradient, names.attention, 192)
    assert halves is not None
    assert halves.rank == len(halves.down) == 12
    rows = halves.down.double().numpy()
    assert left_of(rows, inputs_of(room.model, list(case.truths))) < 1e-5 * np.linalg.norm(rows, 2)


def test_patches_of_any_page_lie_in_the_span_of_their_gradient(room: Room, case: Case) -> None:
    assert isinstance(room.model, Vt5Gradients)
    weights = dict(room.model.network.named_parameters())
    gradient = case.seen.gradient[f"{PATCHES}.weight"]
    found = span_of_patches(
        gradient.double().numpy(), weights[f"{PATCHES}.weight"].detach(), weights[f"{PATCHES}.bias"].detach(),
        noise_of([], gradient, None),
    )  # fmt: skip
    patches = room.model.word_tables().patches(batch_of(room.model, case.truths)[0][0]).double().numpy()
    free = outside_of([found])
    assert free.shape[1] > 96
    assert np.linalg.norm(patches @ free, axis=1).max() < 1e-4 * np.median(np.linalg.norm(patches, axis=1))


def test_all_private_tokens_come_back_and_no_other(room: Room, case: Case) -> None:
    right, wanted, false, causes = counted(room, case)
    assert right == wanted > 12  # more than the adapters have rows
    assert not false
    assert not causes
    decision = room.in_any_order(case)
    assert decision is not None
    assert decision.level == "leak"


def test_the_published_bag_of_words_ends_with_the_rows(room: Room, case: Case) -> None:
    """The span test alone needs fewer inputs than rows; with one input it finds that one."""
    assert isinstance(room.model, Vt5Gradients)
    tables, weights = room.model.word_tables(), dict(room.model.network.named_parameters())
    parts, boxes = InputParts.of(tables.summed(), weights), case.truths[0].text["boxes"][:3].numpy()
    halves = halves_of(case.seen.gradient, tables.summed().attention, 192)
    assert halves is not None
    assert bag_of_words(halves.down.double().numpy(), parts, boxes) == set()
    own = (parts.words[[17]] + parts.spatial(boxes[:1])) / np.linalg.norm(parts.words[17])
    assert bag_of_words(own, parts, boxes) == {17}


def test_halves_that_a_step_of_adam_made_are_enough(room: Room) -> None:
    of = room.case(1)
    made = updates.later_round(room.model, of.truths, [room.clients.page("training", 9)])
    right, wanted, false, causes = counted(room, replace(of, seen=replace(of.seen, gradient=made)))
    assert right == wanted > 12
    assert not false
    assert not causes


def test_the_first_round_gives_no_tokens(room: Room) -> None:
    of = room.case(0)
    first = replace(of, seen=replace(of.seen, gradient=updates.adapters(of.seen.gradient)))
    assert counted(room, first)[::2] == (0, 0)
    assert counted(room, first)[3] == {Cause.FIRST}


def test_more_tokens_than_directions_are_crowded_and_none_is_named(room: Room) -> None:
    right, wanted, false, causes = counted(room, later(room, room.case(0, batch=6)))
    assert (right, false, causes) == (0, 0, {Cause.CROWDED})
    assert wanted > 60


@pytest.mark.parametrize(
    ("change", "least"),
    [
        (updates.clipped, 1.0),
        (lambda given: updates.frozen(given, "visual_emb_matcher"), 1.0),
        (lambda given: updates.rounded(given, torch.float16), 0.9),
        (lambda given: updates.rounded(given, torch.bfloat16), 0.5),
        (lambda given: updates.noisy(given, 1e-6), 0.9),
        (lambda given: updates.noisy(given, 1.0), 0.0),
    ],
)
def test_what_is_done_to_adapters_names_no_false_token(room: Room, change: Change, least: float) -> None:
    right, wanted, false, causes = counted(room, later(room, room.case(2), change))
    assert right >= least * wanted
    assert not false
    assert right == wanted or causes or not least


@pytest.mark.parametrize(
    "change",
    [
        lambda given: updates.integers(given, by_row=True),
        updates.integers,
        lambda given: updates.integers(given, 7, by_row=True, seed=1),
        updates.nf4,
    ],
)
def test_quantised_adapters_are_called_quantised(room: Room, change: Change) -> None:
    sent = later(room, room.case(2), change)
    right, wanted, false, causes = counted(room, sent)
    assert not false
    assert right < wanted
    assert causes == {Cause.QUANTISED}
    assert Cause.CROWDED not in {limit.cause for limit in bag_of(room.model, sent).limits}


def test_boxes_need_not_be_known_where_the_gradient_of_their_layer_is(room: Room) -> None:
    """Without the tables of coordinates the span of the spatial matcher's gradient has them all."""
    right, wanted, false, causes = counted(
        room, later(room, room.case(0), lambda given: updates.frozen(given, "position_embeddings"))
    )
    assert right == wanted > 12
    assert not false
    assert not causes


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (("lora_",), "no gradient of the spatial matcher"),
        (("lora_B",), "no gradient of the spatial matcher"),
        (("lora_B", "spatial"), "no gradient of the halves A"),
    ],
)
def test_what_adapters_alone_lack_is_said(room: Room, parts: tuple[str, ...], said: str) -> None:
    bag = bag_of(room.model, later(room, room.case(0), lambda given: updates.alone(given, *parts)))
    tables = room.model.word_tables() if isinstance(room.model, Vt5Gradients) else None
    assert tables is not None
    assert not bag.items[ANY_ORDER] - tables.always
    assert [limit for limit in bag.limits if limit.cause is Cause.MISSING and said in limit.words]


def difference(room: Room, pages: int, decay: float = 0.01, rate: float = 0.05) -> tuple[Case, updates.Update]:
    """A step of SGD on adapters in a later round, as a difference of weights with weight decay, and the gradient."""
    of = room.case(pages)
    gradient, generator = updates.adapters(of.seen.gradient, up=UP), torch.Generator().manual_seed(1)
    own = {name: part.detach() for name, part in room.model.network.named_parameters()}
    begun = {
        name: own[name] if name in own else 0.05 * torch.randn(part.shape, generator=generator)
        for name, part in gradient.items()
    }
    moved = {name: (part - rate * (gradient[name] + decay * part)) - part for name, part in begun.items()}
    seen = replace(of.seen, gradient=moved, weights=own | begun)
    return replace(of, seen=seen), gradient


@pytest.mark.parametrize("page", range(2))
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_a_step_of_sgd_is_read_with_the_rounding_of_its_weights(room: Room, decay: float, page: int) -> None:
    case, _ = difference(room, page, decay)
    right, wanted, false, _ = counted(room, case)
    assert right >= 0.9 * wanted > 12
    assert not false


def test_the_rounding_of_a_difference_is_what_double_precision_says(room: Room) -> None:
    case, gradient = difference(room, 0)
    assert case.seen.weights is not None
    for name, errors in rounding_of_matrices(case.seen.gradient, case.seen.weights).items():
        begun = case.seen.weights[name].double()
        off = case.seen.gradient[name].double() + 0.05 * (gradient[name].double() + 0.01 * begun)
        assert float(off.square().mean().sqrt()) == pytest.approx(float(errors.square().mean().sqrt()), rel=0.5)
    assert not rounding_of_matrices(gradient, case.seen.weights)


def test_a_difference_of_first_halves_that_moved_by_decay_alone_is_the_first_round(room: Room) -> None:
    case, _ = difference(room, 0)
    assert case.seen.weights is not None
    begun = {name: torch.zeros_like(part) if "lora_B" in name else part for name, part in case.seen.weights.items()}
    moved = {
        name: (begun[name] - 0.05 * 0.01 * begun[name]) - begun[name] if "lora_A" in name else part
        for name, part in case.seen.gradient.items()
    }
    first = replace(case, seen=replace(case.seen, gradient=moved, weights=begun))
    assert counted(room, first)[::2] == (0, 0)
    assert counted(room, first)[3] == {Cause.FIRST}


def test_dropout_leaves_none(room: Room) -> None:
    of = room.case(0)
    dropped = replace(of, seen=replace(of.seen, gradient=updates.dropped(room.model, of.truths)))
    right, _, false, _ = counted(room, later(room, dropped))
    assert (right, false) == (0, 0)
    assert Cause.DROPOUT in {limit.cause for limit in bag_of(room.model, later(room, dropped)).limits}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("page", range(2))
@pytest.mark.parametrize("kind", ["another page", "another form", "another model", "noise"])
def test_what_is_not_of_the_page_is_no_leak(room: Room, kind: str, page: int) -> None:
    of = room.case(page)
    given = (another_page if kind == "noise" else OTHERS[kind])(room, page)
    control = later(room, replace(of, seen=replace(of.seen, gradient=given)))
    if kind == "noise":
        quiet = {name: torch.randn(part.shape) for name, part in control.seen.gradient.items()}
        control = replace(control, seen=replace(control.seen, gradient=quiet))
    decision = room.in_any_order(control)
    assert decision is None or decision.level != "leak"


def test_a_form_that_is_filled_in_already_gives_nothing_private(room: Room) -> None:
    """Words that the template prints are public, and are named neither as found nor as false."""
    of = room.case(0)
    filled, page = of.seen.template, room.clients.filled(0)
    whole = later(
        room, replace(of, seen=replace(of.seen, template=replace(filled, words=page.words, boxes=page.boxes)))
    )
    bag = bag_of(room.model, whole)
    assert isinstance(room.model, Vt5Gradients)
    printed = {token for word in page.words for token in room.model.word_tables().pieces(word)}
    assert not bag.items[ANY_ORDER] & printed - room.model.word_tables().always


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("base_model.model.encoder.q.lora_A.weight", "encoder.q.weight"),
        ("t5.base_model.model.encoder.q.lora_B.default.weight", "t5.encoder.q.weight"),
        ("encoder.q.weight", None),
    ],
)
def test_names_of_adapters(name: str, layer: str | None) -> None:
    assert adapted_layer(name) == layer


def test_adapters_of_another_width_are_refused() -> None:
    given = {"q.lora_A.weight": torch.zeros(6, 100)}
    with pytest.raises(AuditError, match="not 192 wide"):
        halves_of(given, ("q.weight",), 192)


def test_a_captured_gradient_may_hold_adapters(room: Room, case: Case, tmp_path: Path) -> None:
    path = tmp_path / "g.safetensors"
    named = {
        name.replace("lora_A.", "lora_A.default.").replace("backbone.", "backbone.base_model.model."): part.contiguous()
        for name, part in case.seen.gradient.items()
    }
    save_file(named, path)
    read = read_gradient(path, room.model, Silent())
    assert set(read) == set(named)
    assert counted(room, replace(case, seen=replace(case.seen, gradient=read))) == counted(room, case)
    assert not any("lora" in name for name in speaking(read))
    save_file(named | {next(name for name in named if "lora_A" in name): torch.ones(6, 7)}, path)
    with pytest.raises(AuditError, match=r"is \(6, 7\)"):
        read_gradient(path, room.model, Silent())


def test_swapped_names_of_halves_are_refused(room: Room, case: Case, tmp_path: Path) -> None:
    path = tmp_path / "g.safetensors"
    names = {"lora_A": "lora_B", "lora_B": "lora_A"}
    swapped = {
        next((name.replace(half, other) for half, other in names.items() if half in name), name): part.contiguous()
        for name, part in case.seen.gradient.items()
    }
    save_file(swapped, path)
    said = r"lora_A.weight is \(192, 6\), and that half of an adapter \(rank, 192\)"
    with pytest.raises(AuditError, match=said):
        read_gradient(path, room.model, Silent())

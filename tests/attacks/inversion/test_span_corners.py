"""Corners of tables are told apart, and dropout is found: against gradients by automatic differentiation."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.bag import bag_of
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.controls import ALL_BOXES, ANY_ORDER
from pfl_audit.attacks.inversion.input_span.basis import bases_of
from pfl_audit.attacks.inversion.input_span.boxes import boxes_in
from pfl_audit.attacks.inversion.input_span.corners import Standing, needed, standing
from pfl_audit.attacks.inversion.input_span.dropout import share_dropped
from pfl_audit.attacks.inversion.input_span.inputs import InputParts
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.attacks.inversion.update.difference import rounding_of
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion import updates
from tests.attacks.inversion.room import Room

FIXTURES = Path(__file__).parents[3] / "fixtures"
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WIDTH, COORDINATES = 64, 40
EXACT = Noise(0.0, 3 * 2.0**-53, everywhere=False)
TABLE = np.array([(left, top, left + 4, top + 2) for left, top in product((1, 9, 20), (3, 12, 22, 31))])
"""Cells of a table: every one is a corner of others."""


def parts_of(rng: np.random.Generator, shift: float) -> InputParts:
    def table(*shape: int) -> Floats:
        return rng.standard_normal(shape)

    across, down = (
        rows - rows.mean(axis=1, keepdims=True) for rows in (table(COORDINATES, WIDTH), table(COORDINATES, WIDTH))
    )
    return InputParts(
        words=table(5, WIDTH), across=across, down=down, gain=1 + 0.1 * table(WIDTH), shift=shift * table(WIDTH),
        epsilon=1e-12, matcher=table(WIDTH, WIDTH), offset=table(WIDTH), norm=np.ones(WIDTH),
    )  # fmt: skip


def gradients(parts: InputParts, boxes: Ints, signals: Floats) -> list[Floats]:
    """Of the matcher, its offset and both tables, where every box has the error signal beside it."""
    across, down, matcher, offset = (
        torch.tensor(part, requires_grad=True) for part in (parts.across, parts.down, parts.matcher, parts.offset)
    )
    left, top, right, bottom = torch.from_numpy(boxes).T
    total = across[left] + down[top] + across[right] + down[bottom]
    normed = functional.layer_norm(
        total, (WIDTH,), torch.from_numpy(parts.gain), torch.from_numpy(parts.shift), parts.epsilon
    )
    loss = (torch.from_numpy(signals) * (normed @ matcher.T + offset)).sum()
    found = torch.autograd.grad(loss, (matcher, offset, across, down))
    return [part.numpy() for part in found]


def stand(seed: int, shift: float, *, half: bool = False) -> tuple[NDArray[np.bool_], Standing, NDArray[np.bool_]]:
    """Which of the table's cells are on the page, what was found, and which are needed."""
    rng = np.random.default_rng(seed)
    parts = parts_of(rng, shift)
    true = rng.permutation(len(TABLE)) < 9
    given = gradients(parts, TABLE[true], rng.standard_normal((9, WIDTH)))
    if half:
        given = [torch.from_numpy(part).bfloat16().double().numpy() for part in given]
    found = standing(parts, TABLE, given[0], given[1], (given[2], given[3]), EXACT, rng)
    return true, found, needed(parts.placed(TABLE), given[0])


@pytest.mark.parametrize("shift", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_cells_of_a_table_are_distinguished(seed: int, shift: float) -> None:
    true, found, alone = stand(seed, shift)
    assert found.there.tolist() == true.tolist()
    assert found.absent.tolist() == (~true).tolist()
    assert alone.sum() < true.sum()


BESIDE = np.array([(30, 35, 34, 38), (30, 3, 34, 5), (1, 35, 5, 38), (1, 3, 36, 5)])
"""Boxes with coordinates that no page has, whose rows of the tables are zero."""


@pytest.mark.parametrize("sigma", [0.0, 1e-7])
@pytest.mark.parametrize("many", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_coordinates_that_no_page_has_hide_no_box(seed: int, many: int, sigma: float) -> None:
    """Errors of the gradient are all that their rows hold, also where no noise was added."""
    rng = np.random.default_rng(seed)
    parts, boxes = parts_of(rng, 0.0), np.concatenate([TABLE, BESIDE[:many]])
    true = np.arange(len(boxes)) < 9
    given = gradients(parts, boxes[true], rng.standard_normal((9, WIDTH)))
    given = [torch.from_numpy(part).float().double().numpy() for part in given]
    noise = Noise(sigma, 3 * 2.0**-24, everywhere=bool(sigma))
    found = standing(parts, boxes, given[0], given[1], (given[2], given[3]), noise, rng)
    assert found.there.tolist() == true.tolist()
    assert found.absent.tolist() == (~true).tolist()


@pytest.mark.filterwarnings("error")
def test_a_gradient_of_zeros_decides_nothing() -> None:
    parts = parts_of(np.random.default_rng(0), 0.0)
    given = [np.zeros_like(part) for part in gradients(parts, TABLE, np.ones((len(TABLE), WIDTH)))]
    found = standing(parts, TABLE, given[0], given[1], (given[2], given[3]), EXACT, np.random.default_rng(0))
    assert not (found.there | found.absent).any()


@pytest.mark.parametrize("seed", range(5))
def test_half_precision_leaves_some_open_and_names_none_that_is_not_there(seed: int) -> None:
    true, found, _ = stand(seed, 0.0, half=True)
    assert not (found.there & ~true).any()
    assert not (found.absent & true).any()


@pytest.mark.parametrize("seed", range(10))
def test_tables_of_noise_show_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = parts_of(rng, 0.0)
    matcher, *_ = gradients(parts, TABLE, rng.standard_normal((len(TABLE), WIDTH)))
    noise = (rng.standard_normal((COORDINATES, WIDTH)), rng.standard_normal((COORDINATES, WIDTH)))
    found = standing(parts, TABLE, matcher, np.zeros(WIDTH), noise, EXACT, rng)
    assert found.there.sum() <= needed(parts.placed(TABLE), matcher).sum() + 1
    assert not found.absent.any()


CELL = np.array(list(product((1, 2, 3), (11, 12), (21, 22, 23), (31, 32))))
"""Boxes of one cell on pages of a batch: they differ in all four edges, and depend on one another in all equations."""


@pytest.mark.parametrize("seed", range(8))
def test_boxes_of_one_cell_are_named_only_where_all_solutions_agree(seed: int) -> None:
    """A sparse solution need not be the pages', and names boxes that are on none of them."""
    rng = np.random.default_rng(seed)
    parts = parts_of(rng, 0.0)
    true = np.zeros(len(CELL), bool)
    true[rng.permutation(len(CELL))[: 7 + seed]] = True
    given = gradients(parts, CELL[true], rng.standard_normal((int(true.sum()), WIDTH)))
    found = standing(parts, CELL, given[0], given[1], (given[2], given[3]), EXACT, rng)
    assert not (found.there & ~true).any()
    assert not (found.absent & true).any()


@pytest.mark.parametrize("seed", range(5))
def test_a_box_that_errors_allow_is_not_needed(seed: int) -> None:
    """A LayerNorm with a shift makes a corner no exact combination of others, and near enough to one for errors."""
    rng = np.random.default_rng(seed)
    parts = parts_of(rng, 0.01)
    boxes = np.array([(1, 3, 5, 7), (1, 3, 9, 12), (20, 22, 5, 7), (20, 22, 9, 12)])
    true = np.array([True, True, True, False])
    matcher = rng.standard_normal((WIDTH, 3)) @ parts.placed(boxes[true])
    noisy = matcher + 0.1 * rng.standard_normal(matcher.shape)
    assert needed(parts.placed(boxes[true]), noisy).all()
    assert not needed(parts.placed(boxes), noisy)[3]


def difference(part: Floats, weights: Floats) -> Floats:
    """A gradient as a step of SGD shows it: with the rounding of single weights."""
    single = weights.astype(np.float32)
    return np.asarray(single + part.astype(np.float32) - single, dtype=np.float64)


ALWAYS = np.array([(0, 0, 0, 0), (0, 0, 39, 39)])
SINGLE = Noise(0.0, 3 * 2.0**-24, everywhere=False)


@pytest.mark.parametrize(("seed", "size", "orders"), [(7, 1e-3, 2), (6, 1e-4, 0)])
@pytest.mark.parametrize("lower", [False, True])
def test_no_box_is_lost_where_wrong_ones_are_near(seed: int, size: float, orders: int, *, lower: bool) -> None:
    """What a list of boxes lacks, others in it explain, which were then named for certain.

    By the upper half of random boxes wrong ones of both seeds are near, by the lower half those of one.
    """
    rng = np.random.default_rng(seed)
    parts = parts_of(rng, 0.1)
    true = np.concatenate([ALWAYS, TABLE[rng.permutation(len(TABLE)) < 12]])
    signals = size * rng.standard_normal((len(true), WIDTH)) * 10.0 ** (-orders * rng.random((len(true), 1)))
    signals[0] = size * rng.standard_normal(WIDTH)
    given = [difference(part, rng.standard_normal(part.shape)) for part in gradients(parts, true, signals)]
    bases, edges = bases_of(given[0], SINGLE.rounding), (np.unique(true[:, ::2]), np.unique(true[:, 1::2]))
    found = boxes_in(bases, parts, edges, ALWAYS[:0], ALWAYS, np.random.default_rng(20), lower=lower)
    assert found.apart.separated
    assert (lower and orders) or found.apart.low < 2 * found.apart.high
    pages = {tuple(box) for box in true.tolist()}
    assert pages <= {tuple(box) for box in found.boxes.tolist()}
    there = standing(parts, found.boxes, given[0], given[1], (given[2], given[3]), SINGLE, rng).there
    assert {tuple(box) for box in found.boxes[there].tolist()} <= pages


def test_boxes_of_weak_signals_are_named_where_the_rounding_of_weights_is_known() -> None:
    without, known, every = 0, 0, 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        parts, true = parts_of(rng, 0.1), rng.permutation(len(TABLE)) < 9
        given, rounded = list[Floats](), list[Floats]()
        for part in gradients(parts, TABLE[true], 3e-7 * rng.standard_normal((9, WIDTH))):
            sizes = 10.0 ** rng.uniform(-3, 1, (len(part), *[1] * (part.ndim - 1)))
            weights = sizes * rng.standard_normal(part.shape)
            given.append(difference(part, weights))
            if part.ndim > 1:
                found = rounding_of(torch.from_numpy(given[-1]), torch.from_numpy(weights))
                assert found is not None
                rounded.append(found)
        stated = (parts, TABLE, given[0], given[1], (given[2], given[3]), SINGLE)
        there = [standing(*stated, np.random.default_rng(0), errors).there for errors in (None, rounded)]
        assert not any((some & ~true).any() for some in there)
        without, known, every = without + there[0].sum(), known + there[1].sum(), every + true.sum()
    assert without < known <= every


@pytest.mark.parametrize(("seed", "size", "orders"), [(3, 1e-3, 2), (3, 1e-3, 3), (2, 1e-4, 1), (3, 1e-4, 2)])
def test_a_weak_direction_of_the_span_is_used(seed: int, size: float, orders: int) -> None:
    """Without it true boxes were lost, and a false one was named in their place."""
    rng = np.random.default_rng(seed)
    parts = parts_of(rng, 0.1)
    true = np.concatenate([ALWAYS, TABLE[rng.permutation(len(TABLE)) < 9]])
    signals = size * rng.standard_normal((len(true), WIDTH)) * 10.0 ** (-orders * rng.random((len(true), 1)))
    signals[0] = size * rng.standard_normal(WIDTH)
    given, rounded = list[Floats](), list[Floats]()
    for part in gradients(parts, true, signals):
        weights = rng.standard_normal(part.shape)
        given.append(difference(part, weights))
        if part.ndim > 1:
            found = rounding_of(torch.from_numpy(given[-1]), torch.from_numpy(weights))
            assert found is not None
            rounded.append(found)
    bases, edges = bases_of(given[0], SINGLE.rounding, rounded[0]), (np.unique(true[:, ::2]), np.unique(true[:, 1::2]))
    listed = boxes_in(bases, parts, edges, ALWAYS[:0], ALWAYS, np.random.default_rng(20)).boxes
    pages = {tuple(box) for box in true.tolist()}
    assert pages <= {tuple(box) for box in listed.tolist()}
    stated = (parts, listed, given[0], given[1], (given[2], given[3]), SINGLE, np.random.default_rng(20), rounded)
    assert {tuple(box) for box in listed[standing(*stated).there].tolist()} <= pages


@pytest.mark.parametrize("seed", range(4))
def test_the_rounding_of_weights_adds_no_direction(seed: int) -> None:
    """Rows of small signals have the rounding of large ones, which relative to their size looks like inputs."""
    rng = np.random.default_rng(seed)
    inputs, weights = rng.standard_normal((12, WIDTH)), 0.05 * rng.standard_normal((WIDTH, WIDTH))
    signals = 1e-4 * 10.0 ** (-4 * rng.random((WIDTH, 1))) * rng.standard_normal((WIDTH, 12))
    sent = difference(signals @ inputs, weights)
    rounded = rounding_of(torch.from_numpy(sent), torch.from_numpy(weights))
    assert rounded is not None
    known = bases_of(sent, SINGLE.rounding, rounded)
    assert [basis.rank for basis in known] == [12]
    assert known[0].excess_of(inputs).max() < 1.5
    assert bases_of(sent, SINGLE.rounding)[0].rank > 2 * 12


def masked(seed: int, rate: float) -> tuple[Floats, Floats]:
    """A gradient of 20 inputs with a mask each, and the first of the inputs without."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((20, 96))
    masks = rng.random(inputs.shape) >= rate
    return rng.standard_normal((96, 20)) @ (inputs * masks), inputs[0]


@pytest.mark.parametrize("seed", range(3))
def test_the_share_of_dropout_is_found(seed: int) -> None:
    gradient, known = masked(seed, 0.1)
    share = share_dropped(bases_of(gradient, 1e-7)[0], known)
    assert share == pytest.approx(0.1, abs=0.08)


@pytest.mark.parametrize("seed", range(3))
def test_an_input_of_something_else_has_no_mask(seed: int) -> None:
    gradient, known = masked(seed, 0.1)
    other = np.random.default_rng(seed + 100).standard_normal(len(known))
    basis = bases_of(gradient, 1e-7)[0]
    assert share_dropped(basis, other) is None
    noisy = known + 0.3 * other
    assert share_dropped(basis, noisy) is None


@pytest.fixture(scope="module")
def room() -> Room:
    return Room(open_gradient_model(str(FIXTURES / "vt5-finetuned")), open_templates(FIXTURES / "templates")[:1])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_stated_dropout_is_the_cause_also_where_no_mask_is_found(
    seed: int, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pfl_audit.attacks.inversion.input_span.recovery.share_dropped", lambda *_: None)
    case = room.case(0)
    seen = replace(case.seen, gradient=updates.dropped(room.model, case.truths, seed=seed))
    (unknown,) = said_of_boxes(room, replace(case, seen=seen))
    assert unknown.cause in (Cause.OTHER, Cause.NOISE)
    assert "or was taken with the model's dropout of 0.1" in unknown.words
    (known,) = said_of_boxes(room, replace(case, seen=replace(seen, dropout=0.1)))
    assert known.cause is Cause.DROPOUT
    assert known.words == "boxes: the inputs have dropout of 0.1, so that each has a mask of its own"


@pytest.mark.slow
def test_dropout_that_is_stated_and_was_not_on_hides_nothing(room: Room) -> None:
    case = room.case(0)
    stated = replace(case, seen=replace(case.seen, dropout=0.1))
    assert bag_of(room.model, stated).items == bag_of(room.model, case).items
    assert not said_of_boxes(room, stated)
    nothing = {name: 0 * part if "spatial_emb_matcher" in name else part for name, part in case.seen.gradient.items()}
    limits = bag_of(room.model, replace(case, seen=replace(stated.seen, gradient=nothing))).limits
    assert Cause.DROPOUT not in {limit.cause for limit in limits}


def said_of_boxes(room: Room, case: Case) -> list[Limit]:
    return [limit for limit in bag_of(room.model, case).limits if limit.words.startswith("boxes")]


def test_dropout_leaves_the_tokens_and_is_named(room: Room) -> None:
    case = room.case(0)
    dropped = replace(case.seen, gradient=updates.dropped(room.model, case.truths))
    bag = bag_of(room.model, replace(case, seen=dropped))
    assert {limit.cause for limit in bag.limits} >= {Cause.DROPOUT}
    assert not bag.items[ALL_BOXES]
    text = case.truths[0].text
    assert bag.items[ANY_ORDER] - {0} == set(text["ids"].tolist()) | set(text["labels"].tolist())

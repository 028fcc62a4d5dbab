"""Clients that share nothing of the embeddings: what the first layer's matrices give away, and what they must not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pfl_audit.attacks.inversion.analytic.limits import Cause
from pfl_audit.attacks.inversion.analytic.recovery import Recovery
from pfl_audit.attacks.inversion.bag import bag_of
from pfl_audit.attacks.inversion.bag import counts_of as bag_counts
from pfl_audit.attacks.inversion.batches.inputs import TextInputs
from pfl_audit.attacks.inversion.batches.places import alone, rank_of
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.controls import ANY_ORDER, COORDINATES, PAGES, PLACES
from pfl_audit.attacks.inversion.input_span.basis import bases_of
from pfl_audit.attacks.inversion.matrices.features import Outside
from pfl_audit.attacks.inversion.matrices.recovery import Placed, places_of
from pfl_audit.attacks.inversion.word_text import solve
from pfl_audit.errors import AuditError
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion import updates
from tests.attacks.inversion.batch_models import FORMS, save_model
from tests.attacks.inversion.conftest import save_reader
from tests.attacks.inversion.room import Room, other_weights
from tests.attacks.inversion.template.drawn import form

Change = Callable[[updates.Update], updates.Update]


def frozen(update: updates.Update) -> updates.Update:
    return updates.frozen(update, "mbed")


def queries_and_values(update: updates.Update) -> updates.Update:
    return updates.alone(update, *updates.QUERIES_AND_VALUES)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Room:
    folder = save_reader(tmp_path_factory.mktemp("reader"), "v3")[0]
    return Room(open_gradient_model(str(folder), "cpu"), (form(), form(("Sum:", "Place:", "Who:"))))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Room:
    return Room(open_gradient_model(str(save_model(tmp_path_factory.mktemp("blind"), 192)), "cpu"), FORMS)


def sent(room: Room, change: Change, number: int = 0, batch: int = 1) -> Case:
    case = room.case(number, batch=batch)
    return room.case(number, batch=batch, gradient=change(dict(case.seen.gradient)))


def placed(room: Room, case: Case) -> Placed:
    encoder = room.model.word_encoder()
    assert encoder is not None
    return places_of(encoder, case.seen, dict(room.model.network.named_parameters()))


def rows_of(case: Case) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()
    for text in (truth.text for truth in case.truths):
        columns = (text["input_ids"], torch.arange(len(text["input_ids"])), text["token_type_ids"], *text["bbox"].T)
        found |= {tuple(row) for row in torch.stack(columns, dim=1).tolist()}
    return found


def causes(got: Recovery | Placed) -> list[Cause]:
    return [limit.cause for limit in got.limits if "pixels" not in limit.words]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("change", [frozen, queries_and_values])
def test_every_token_and_box_of_a_page_comes_back_in_its_place(room: Room, change: Change) -> None:
    case = sent(room, change, number=1)
    got, text = solve(room.model, case.seen), case.truths[0].text
    assert got.tokens.tolist() == text["input_ids"].tolist()
    assert got.boxes.tolist() == text["bbox"].tolist()
    assert bool(got.sure.all())
    assert not causes(got)
    found = room.decision(case)
    assert (found.level, found.share) == ("leak", 1.0)


@pytest.mark.slow
def test_its_words_and_coordinates_are_a_bag_without_false_ones(room: Room) -> None:
    case = sent(room, frozen, number=1)
    counts = bag_counts(room.model, Case(case.seen, case.truths), bag_of(room.model, case))
    for measure in (ANY_ORDER, COORDINATES):
        right, wanted, named = counts[measure][0].tolist()
        assert right == wanted == named > 5


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "parts", [("word_embeddings",), (".position_embeddings",), ("word_embeddings", "s.position_emb")]
)
def test_a_frozen_table_of_words_or_positions_hides_nothing(room: Room, parts: tuple[str, ...]) -> None:
    whole = solve(room.model, room.case(1).seen)
    case = sent(room, lambda update: updates.frozen(update, *parts), number=1)
    got, text = solve(room.model, case.seen), case.truths[0].text
    assert got.tokens.tolist() == text["input_ids"].tolist()
    assert got.boxes.tolist() == text["bbox"].tolist()
    assert whole.pixels is not None
    assert got.pixels is not None
    assert (got.pixels - whole.pixels).abs().max() < 0.01
    assert not causes(got)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_leaves_no_false_place(room: Room, kind: torch.dtype) -> None:
    case = sent(room, lambda update: updates.rounded(frozen(update), kind), number=1)
    sure = {tuple(row) for row in placed(room, case).sure.tolist()}
    assert sure <= rows_of(case)
    assert len(sure) > len(rows_of(case)) / 2


def test_the_evidence_of_another_page_is_none(room: Room) -> None:
    other = frozen(share(room.model, [room.clients.page("batch", 0)]))
    assert room.decision(room.case(1, gradient=other)).level == "unresolved"


def test_noise_other_weights_adam_and_dropout_place_nothing_and_are_named(room: Room) -> None:
    case = sent(room, frozen)
    generator = torch.Generator().manual_seed(0)
    noise = {name: torch.randn(part.shape, generator=generator) for name, part in case.seen.gradient.items()}
    with other_weights(room.model):
        other = frozen(share(room.model, case.truths))
    adam = frozen(updates.trained(room.model, case.truths, 1, updates.adamw(1e-4)))
    dropped = frozen(updates.dropped(room.model, case.truths))
    loud = updates.noisy(case.seen.gradient, 1.0)
    for update, cause, rate in (
        (noise, Cause.NOISE, 0.0),
        (loud, Cause.NOISE, 0.0),
        (other, Cause.OTHER, 0.0),
        (adam, Cause.SIGNS, 0.0),
        (dropped, Cause.DROPOUT, 0.1),
    ):
        found = placed(room, replace(case, seen=replace(case.seen, gradient=update, dropout=rate)))
        assert not len(found.places)
        assert causes(found) == [cause]


@pytest.mark.slow
def test_several_pages_that_are_stated_as_one_are_mixed(wide: Room) -> None:
    case = sent(wide, frozen, batch=2)
    found = placed(wide, replace(case, seen=replace(case.seen, batch=1)))
    assert not found.certain.any()
    assert Cause.MIXED in causes(found)


@pytest.mark.slow
def test_the_pages_of_a_batch_come_back_and_are_certified(wide: Room) -> None:
    case = sent(wide, frozen, batch=2)
    bag = bag_of(wide.model, case)
    assert bag.error is not None
    assert bag.error < 1e-5
    counts = bag_counts(wide.model, Case(case.seen, case.truths), bag)
    assert counts[PAGES][0].tolist() == [2, 2, 2]
    right, wanted, named = counts[PLACES][0].tolist()
    assert right == wanted == named > 0


@pytest.mark.slow
def test_of_queries_and_values_of_a_batch_only_true_places_are_certain(wide: Room) -> None:
    case = sent(wide, queries_and_values, batch=2)
    found = placed(wide, case)
    assert rows_of(case) <= {tuple(row) for row in found.places.tolist()}
    sure = {tuple(row) for row in found.sure.tolist()}
    assert sure <= rows_of(case)
    assert len(sure) > 5
    limits = bag_of(wide.model, case).limits
    assert {limit.cause for limit in limits} == {Cause.MIXED, Cause.MISSING}


def test_too_many_inputs_for_the_width_are_said(wide: Room) -> None:
    found = placed(wide, sent(wide, frozen, batch=32))
    assert not len(found.places)
    assert causes(found) == [Cause.CROWDED]
    assert "too many inputs for the width" in found.limits[0].words


def test_coordinates_that_share_the_whole_width_are_said_to_be_missing(tmp_path: Path) -> None:
    room = Room(open_gradient_model(str(save_reader(tmp_path, "v1")[0]), "cpu"), (form(),))
    case = sent(room, frozen)
    found = placed(room, case)
    assert {tuple(row) for row in found.sure.tolist()} <= rows_of(case)
    assert causes(found) == [Cause.MISSING]


def test_nothing_of_the_first_attention_either_is_refused(room: Room) -> None:
    for kept in ("layer.1", "qa_outputs"):
        case = sent(room, lambda update, kept=kept: updates.alone(update, kept))  # type: ignore[misc]
        with pytest.raises(AuditError, match="holds nothing of the embeddings"):
            solve(room.model, case.seen)


def test_true_places_are_zero_outside_and_left_edges_are_beside(room: Room) -> None:
    case, encoder = room.case(1), room.model.word_encoder()
    assert encoder is not None
    inputs = TextInputs.of(encoder.layout, encoder.first, dict(room.model.network.named_parameters()))
    gradient = torch.cat([case.seen.gradient[name] for name in encoder.first.attention]).double().numpy()
    outside = Outside.of(bases_of(gradient, 3 * 2.0**-24)[0], inputs)
    rows = np.array(sorted(rows_of(case)))
    sums = (inputs.words(rows) + inputs.boxes(rows[:, 3:])) @ outside.map
    moved = rows[:, 3:] + [1, 0, 2, 0]
    off = (inputs.words(rows) + inputs.boxes(moved)) @ outside.map
    beside = (inputs.words(rows) + inputs.boxes(moved)) @ outside.beside("x", "w").map
    assert np.abs(sums).max() < 1e-3 * np.linalg.norm(off, axis=1).min()
    assert np.abs(beside).max() < 1e-3 * np.linalg.norm(off, axis=1).min()


def test_the_rank_of_places_is_that_of_independent_embeddings() -> None:
    box, other = (1, 2, 3, 4), (5, 6, 7, 9)
    square = [(10, 1, 0, *box), (10, 2, 0, *other), (11, 1, 0, *box), (11, 2, 0, *other)]
    assert rank_of(np.array(square)) == 3
    assert rank_of(np.array(square[:3])) == 3
    assert not alone(np.array(square)).any()
    assert rank_of(np.zeros((0, 7), np.int64)) == 0

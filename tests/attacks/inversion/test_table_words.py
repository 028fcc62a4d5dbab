"""Words of a VT5's update by the rows of its tied table: what leaks is found, and other evidence is no leak."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.adam_rows import rows_beside_common
from pfl_audit.attacks.inversion.bag import bag_of, counts_of
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.controls import ANY_ORDER, COORDINATES
from pfl_audit.attacks.inversion.table_words import LookedUp, words_of_tables
from pfl_audit.attacks.inversion.tied_rows import rows_beside_output
from pfl_audit.errors import AuditError
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.vt5.gradients import Vt5Gradients
from tests.attacks.inversion import updates
from tests.attacks.inversion.other_evidence import OTHERS, case_of
from tests.attacks.inversion.room import Room
from tests.attacks.inversion.template.drawn import form
from tests.oracles.tied_rows import rows_beside

FIXTURES = Path(__file__).parents[3] / "fixtures"
SINGLE = 3 * 2.0**-24


@pytest.fixture(scope="module")
def room() -> Room:
    return Room(open_gradient_model(str(FIXTURES / "vt5-finetuned")), (form(), form(("Sum:", "Place:", "Who:"))))


def words_of(room: Room, case: Case) -> set[int]:
    """All tokens of the pages and answers of a case, and the decoder's start."""
    assert isinstance(room.model, Vt5Gradients)
    texts = [truth.text for truth in case.truths]
    return {0, *(token for text in texts for name in ("ids", "labels") for token in text[name].tolist())}


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_those_of_the_oracle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    states = rng.standard_normal((int(rng.integers(1, 12)), 40))
    table = (rng.random((300, len(states))) ** 8 * 1e-3) @ states
    looked_up = rng.choice(300, 60, replace=False)
    table[looked_up] += rng.standard_normal((60, 40)) * 10.0 ** rng.uniform(-5, 0, (60, 1))
    found = rows_beside_output(table, 1e-15)
    assert found.rows.tolist() == rows_beside(table, states)
    assert set(found.rows.tolist()) <= set(looked_up.tolist())
    assert len(found.rows) > 45  # the rest has a signal of less than a tenth of the row


def test_noise_has_no_span() -> None:
    found = rows_beside_output(np.random.default_rng(0).standard_normal((500, 40)), SINGLE)
    assert found.hidden
    assert not len(found.rows)
    assert rows_beside_output(np.zeros((50, 8)), SINGLE).rows.tolist() == []
    assert rows_beside_output(np.ones((50, 8)), SINGLE, sigma=9.0).rows.tolist() == []


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_all_words_of_a_batch_come_back(room: Room, kind: torch.dtype, batch: int) -> None:
    case = room.case(0, batch=batch)
    rounded = {name: part.to(kind).float() for name, part in case.seen.gradient.items()}
    seen = replace(case, seen=replace(case.seen, gradient=rounded))
    bag = bag_of(room.model, seen)
    assert set(bag.items[ANY_ORDER]) == words_of(room, case)
    found = room.in_any_order(seen)
    assert found is not None
    assert found.level == "leak"
    assert found.chance < 0.7
    right, wanted, named = counts_of(room.model, seen, bag)[ANY_ORDER][0].tolist()
    assert right == wanted == named


@pytest.mark.slow
def test_a_step_of_sgd_gives_words_away_as_a_difference_of_weights(room: Room) -> None:
    """Rows of the output are below the rounding of the weights, of which the numbers of the update show the size."""
    case = room.case(0)
    change = updates.trained(room.model, case.truths, 1, updates.sgd(1e-3))
    seen = replace(case, seen=replace(case.seen, gradient=change))
    found = set(bag_of(room.model, seen).items[ANY_ORDER])
    assert len(found & words_of(room, case)) > 0.8 * len(words_of(room, case))
    decision = room.in_any_order(seen)
    assert decision is not None
    assert decision.level == "leak"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("steps", [1, 5, 20])
def test_steps_of_adam_give_words_away(room: Room, steps: int) -> None:
    case = room.case(0)
    change = updates.trained(room.model, case.truths, steps, updates.adamw(1e-4))
    seen = replace(case, seen=replace(case.seen, gradient=change, steps=steps))
    bag = bag_of(room.model, seen)
    found, words = set(bag.items[ANY_ORDER]), words_of(room, case)
    assert len(found & words) > 0.9 * len(words)
    assert len(found - words) < 0.1 * len(words)
    assert [limit.cause for limit in bag.limits] == ["signs"]
    decision = room.in_any_order(seen)
    assert decision is not None
    assert decision.level == "leak"


@pytest.mark.parametrize("kind", ["noise", "signs", "output"])
def test_rows_of_one_kind_name_no_word(kind: str) -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((1000, 192))
    output = rng.random((1000, 6)) ** 4 @ rng.standard_normal((6, 192))
    assert not len(rows_beside_common({"noise": noise, "signs": np.sign(noise), "output": np.sign(output)}[kind]))


def test_rows_with_signs_of_their_own_are_found() -> None:
    rng = np.random.default_rng(1)
    table = (1e-3 * rng.random((1000, 6)) ** 4) @ rng.standard_normal((6, 192))
    looked_up = np.sort(rng.choice(1000, 60, replace=False))
    table[looked_up] += 0.1 * rng.standard_normal((60, 192))
    assert rows_beside_common(np.sign(table)).tolist() == looked_up.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("steps", [5, 20])
def test_rounding_of_many_steps_names_few_words(room: Room, steps: int) -> None:
    case = room.case(0)
    change = updates.trained(room.model, case.truths, steps, updates.sgd(1e-3))
    seen = replace(case.seen, gradient=change, steps=steps)
    found, words = set(bag_of(room.model, replace(case, seen=seen)).items[ANY_ORDER]), words_of(room, case)
    assert found >= words
    assert len(found - words) < len(words) / 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("codec", [updates.nf4, lambda given: updates.integers(given, by_row=True)])
def test_quantised_rows_come_back(room: Room, codec: Callable[[updates.Update], updates.Update]) -> None:
    case = room.case(0)
    changed = replace(case, seen=replace(case.seen, gradient=codec(dict(case.seen.gradient))))
    found, words = set(bag_of(room.model, changed).items[ANY_ORDER]), words_of(room, case)
    assert found <= words
    assert len(found) > 0.9 * len(words)


def test_what_was_left_out_is_named(room: Room) -> None:
    case = room.case(0)
    for given, cause in ((updates.sparse, "sparse"), (updates.integers, "quantised")):
        changed = given(dict(case.seen.gradient))
        bag = bag_of(room.model, replace(case, seen=replace(case.seen, gradient=changed)))
        assert {limit.cause for limit in bag.limits} == {cause}


@pytest.mark.slow
def test_noise_hides_what_is_smaller(room: Room) -> None:
    case = room.case(0)
    found = {}
    for size in (1e-6, 1e-2, 1.0):
        noisy = updates.noisy(dict(case.seen.gradient), size)
        found[size] = bag_of(room.model, replace(case, seen=replace(case.seen, gradient=noisy)))
    words = words_of(room, case)
    assert set(found[1e-6].items[ANY_ORDER]) >= words
    assert set(found[1e-2].items[ANY_ORDER]) <= words
    assert found[1.0].items[ANY_ORDER] == frozenset()
    assert len(found[1e-2].items[COORDINATES]) > 10
    causes = {limit.words.split(":")[0]: limit.cause for limit in found[1e-2].limits}
    assert causes == {"words": "noise", "pixels": "mixed"}
    assert len(found[1.0].items[COORDINATES]) < 3


def test_coordinates_come_back(room: Room) -> None:
    case = room.case(1)
    assert isinstance(room.model, Vt5Gradients)
    _, places, limits = words_of_tables(case.seen.gradient, LookedUp.of(room.model.word_tables()))
    boxes = case.truths[0].text["boxes"]
    assert places["x"] == set(boxes[:, [0, 2]].flatten().tolist())
    assert places["y"] == set(boxes[:, [1, 3]].flatten().tolist())
    assert COORDINATES in bag_of(room.model, case).items
    assert limits == ()


def test_tables_that_are_not_shared_are_named(room: Room) -> None:
    case = room.case(0)
    without = {name: part for name, part in case.seen.gradient.items() if "position_embeddings" not in name}
    limits = bag_of(room.model, replace(case, seen=replace(case.seen, gradient=without))).limits
    assert [limit.words.split(" (")[0] for limit in limits] == [
        "no gradient of the table of x coordinates",
        "no gradient of the table of y coordinates",
        "no gradient of the page encoder's patches",
    ]
    only = {name: part for name, part in without.items() if not name.endswith("shared.weight")}
    bag = bag_of(room.model, replace(case, seen=replace(case.seen, gradient=only)))
    assert bag.items[ANY_ORDER] <= words_of(room, case)  # by the span, in the boxes of the question and the end
    assert [limit.words.split(" (")[0] for limit in bag.limits] == [
        "no gradient of the tables of words and coordinates",
        "no gradient of the page encoder's patches",
    ]
    none = updates.alone(only, "DenseReluDense")
    with pytest.raises(AuditError, match="nothing of the tables of words and coordinates"):
        bag_of(room.model, replace(case, seen=replace(case.seen, gradient=none)))


def test_the_loss_of_a_batch_is_the_mean_over_its_samples(room: Room) -> None:
    pages = [room.clients.page("document", number) for number in range(3)]
    alone = [share(room.model, [page]) for page in pages]
    for name, part in share(room.model, pages).items():
        mean: Tensor = torch.stack([one[name] for one in alone]).mean(dim=0)
        assert float((part - mean).norm()) <= 1e-4 * float(mean.norm()) + 1e-9, name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(len(OTHERS)), ids=list(OTHERS))
def test_evidence_of_something_else_is_no_leak(room: Room, number: int) -> None:
    """``tests.bench.rates`` counts how often it is one."""
    found = room.in_any_order(case_of(room, number))
    assert found is None or found.level != "leak"

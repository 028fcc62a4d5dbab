"""Batches: a killed audit asks the ones that it lacks as they would have been asked, so that rounding is the same."""

import random
from collections.abc import Callable

import pytest

from pfl_audit.attacks.questions.calls import form_batches
from pfl_audit.documents.document import Document, Query
from tests.core.fakes import FakeModel


class Uneven(FakeModel):
    """Questions of one page have different lengths, and short ones come in larger batches."""

    def cost(self, query: Query) -> int:
        return len(query.document.words) + len(query.question)

    def batch_size(self, cost: int) -> int:
        return max(1, 120 // cost)


@pytest.fixture
def wanted(page: Callable[..., Document]) -> dict[str, Query]:
    """Some questions about each of twelve pages of different lengths, by key."""
    rng, found = random.Random(3), {}
    for number in range(12):
        document = page(*["word"] * rng.randint(1, 12), name=f"p{number}_1")
        for at in range(rng.randint(1, 9)):
            query = Query(f"{number}-{at}", document, "?" * rng.randint(1, 12), ("a",))
            found[f"{rng.random():.12f}"] = query
    return found


@pytest.mark.parametrize("seed", range(20))
def test_batches_that_are_left_are_as_they_were(wanted: dict[str, Query], seed: int) -> None:
    """Answers of a batch are stored together; an earlier check had asked some of the questions."""
    rng, model = random.Random(seed), Uneven()
    pending = {key for key in wanted if rng.random() < 0.8}
    whole = form_batches(model, wanted, pending)
    left = [batch for batch in whole if rng.random() < 0.6]
    assert form_batches(model, wanted, {key for batch in left for key in batch}) == left


def test_every_pending_question_is_in_one_batch_that_fits(wanted: dict[str, Query]) -> None:
    model = Uneven()
    batches = form_batches(model, wanted, wanted)
    assert sorted(key for batch in batches for key in batch) == sorted(wanted)
    assert all(len(batch) <= min(model.batch_size(model.cost(query)) for query in batch.values()) for batch in batches)
    assert max(map(len, batches)) > 4
    assert form_batches(model, wanted, ()) == []

"""Units that change places between private and new forms."""

from typing import Any

import numpy as np
import pytest

from pfl_audit.attacks.reconstruction.evaluation import evaluate
from pfl_audit.attacks.reconstruction.outcomes import Attacked, UnitPermutation
from pfl_audit.attacks.reconstruction.search import Guess, Reconstruction
from pfl_audit.attacks.reconstruction.units import permute_units

TRUTH = (1, 2, 3, 4)


def field(document: int, attack: float, baseline: float, rng: np.random.Generator) -> Attacked:
    """A field that attack and baseline put back without an error so often."""

    def guess(share: float) -> Guess:
        tokens = TRUTH if rng.random() < share else tuple(int(token) for token in rng.integers(1, 9, size=4))
        return Guess(tokens, tuple(rng.normal(-1, 0.5, 4)), tuple(rng.normal(-2, 0.5, 4)))

    name = f"{document}"
    return Attacked(name, TRUTH, Reconstruction(name, "f", (guess(attack),), (guess(baseline),)))


def p_values(private: list[Attacked], new: list[Attacked], **more: Any) -> UnitPermutation:
    found = [evaluate(some, 0.01, np.random.default_rng(1), resamples=20) for some in (private, new)]
    units = [one.unit for one in private], [one.unit for one in new]
    return permute_units(found[0], found[1], units, "target perplexity", np.random.default_rng(2), **more)


def fields(documents: int, share: float, rng: np.random.Generator, each: int = 3) -> list[Attacked]:
    return [field(document, share, 0.0, rng) for document in range(documents) for _ in range(each)]


def test_forms_that_are_remembered_stand_out() -> None:
    rng = np.random.default_rng(0)
    found = p_values(fields(15, 0.6, rng), fields(12, 0.0, rng), permutations=499)
    assert (found.tokens, found.gain) == (1 / 500, 1 / 500)
    assert 0 < found.smallest_tokens < 0.5


def test_units_change_places_as_a_whole() -> None:
    """Two units a side can be dealt in six ways, however many fields they have."""
    rng = np.random.default_rng(3)
    found = p_values(fields(2, 1.0, rng, each=40), fields(2, 0.0, rng, each=40), permutations=999)
    assert found.gain == pytest.approx(1 / 6, abs=0.05)
    assert found.tokens == pytest.approx(1 / 6, abs=0.05)


def test_the_gap_is_that_of_the_evaluations() -> None:
    """Sets without any difference are never further apart than they are."""
    rng = np.random.default_rng(4)
    same = fields(5, 0.3, rng)
    found = p_values(same, same, permutations=200)
    assert found.tokens > 0.3
    assert found.gain > 0.3

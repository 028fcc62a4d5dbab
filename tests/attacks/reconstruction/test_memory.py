"""Level of memory of forms: both tests sure, both silent, or one of them alone."""

import numpy as np
import pytest

from pfl_audit.attacks.guesses.putting_back import FEWEST_UNITS
from pfl_audit.attacks.reconstruction.finding import memory_level, smallest_difference
from pfl_audit.core.verdict import Budget
from pfl_audit.metrics.intervals import Estimate, estimate

NOTHING = estimate(0.0, np.zeros(100))


def around(low: float, high: float) -> Estimate:
    return estimate((low + high) / 2, np.linspace(low, high, 100))


@pytest.mark.parametrize(
    ("found", "p_value", "level"),
    [
        (around(0.1, 0.3), 0.001, "weak"),
        (around(0.1, 0.3), 0.5, "none"),
        (around(-0.1, 0.3), 0.5, "none"),
        (around(-0.1, 0.3), 0.001, "unresolved"),
    ],
)
def test_none_is_said_where_no_test_finds_a_difference(found: Estimate, p_value: float, level: str) -> None:
    assert memory_level(found, NOTHING, p_value, FEWEST_UNITS, Budget.shared(3)) == level


def test_too_few_units_are_unresolved() -> None:
    assert memory_level(around(0.1, 0.3), NOTHING, 0.001, FEWEST_UNITS - 1, Budget.shared(3)) == "unresolved"


@pytest.mark.parametrize("permuted", [0.05, 0.5])
@pytest.mark.parametrize("new", [NOTHING, around(-0.4, 0.4)])
def test_the_smallest_difference_passes_every_bound_and_test(new: Estimate, permuted: float) -> None:
    """A permutation may find what resampling does not, and the other way round."""
    budget = Budget.shared(3)
    spread = around(-0.1, 0.1)
    smallest = smallest_difference(spread, new, permuted, budget.weak)

    def level(difference: float) -> str:
        found = estimate(spread.value + difference, spread.samples + difference)
        p_value = 0.001 if difference >= permuted else 0.5
        return memory_level(found, new, p_value, FEWEST_UNITS, budget)

    assert level(smallest + 1e-6) == "weak"
    assert level(smallest - 1e-6) != "weak"


def test_without_new_forms_it_is_over_public_knowledge() -> None:
    assert smallest_difference(around(-0.1, 0.1), None, None, 0.05) == pytest.approx(0.09, abs=0.002)
    assert smallest_difference(NOTHING, None, None, 0.05) == 0.0

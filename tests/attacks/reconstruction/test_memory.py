"""Level of memory of forms: both tests sure, both silent, or one of them alone."""

import numpy as np
import pytest

from pfl_audit.attacks.guesses.putting_back import FEWEST_UNITS
from pfl_audit.attacks.reconstruction.memory import memory_level
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

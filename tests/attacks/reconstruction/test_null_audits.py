"""Forms that no model has seen; ``tests.bench.rates`` counts the false alarms over 500 audits a setting."""

import numpy as np
import pytest

from pfl_audit.attacks.guesses.field import Guessed
from pfl_audit.attacks.guesses.putting_back import put_back
from tests.arrangements import SIDE, arrangements, exact

from .null_audits import CASES, FOUND, LOST, levels


@pytest.mark.parametrize("case", CASES)
def test_negative_control_forms_that_were_not_trained_on(case: str) -> None:
    found = levels(case, 1000, resamples=200)
    assert "leak" not in found


def significant(units: bool) -> float:
    """Share of all ways to deal twelve companies that are called different at 5 %; each has eight forms."""
    easy = np.random.default_rng(3).random(2 * SIDE) < 0.4
    called = []
    for labels in arrangements():
        sides = [
            [
                Guessed(str(company if units else (company, form)), FOUND if easy[company] else LOST, LOST, True)
                for company in np.flatnonzero(labels == side)
                for form in range(8)
            ]
            for side in (True, False)
        ]
        found = put_back(*sides, 64, np.random.default_rng(0), resamples=20, permutations=99)
        assert found.permutation is not None
        called.append(found.permutation <= 0.05)
    return float(np.mean(called))


@pytest.mark.slow
def test_units_are_what_keeps_the_error_rate() -> None:
    """Where companies are dealt whole, forms are not independent."""
    with exact():
        assert significant(units=True) <= 0.05
    assert significant(units=False) > 0.1

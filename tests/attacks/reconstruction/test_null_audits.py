"""False alarms on forms that no model has seen; make bench-null counts them over 500 audits a setting."""

import numpy as np
import pytest

from pfl_audit.attacks.guesses.field import Guessed
from pfl_audit.attacks.guesses.putting_back import put_back

from .null_audits import CASES, FOUND, LOST, levels

AUDITS = 20


@pytest.mark.parametrize("case", CASES)
def test_false_alarms_stay_within_the_budget(case: str) -> None:
    """Budgets of 5 % for a leak and 10 % for a sign: more than 4 and 6 of 20 have a chance below 0.3 % each."""
    found = [levels(case, 1000 + audit, resamples=200) for audit in range(AUDITS)]
    assert sum("leak" in some for some in found) <= 4
    assert sum(level in ("leak", "weak") for some in found for level in some[:1]) <= 6


def significant(units: bool) -> int:
    """Of 60 audits of ten companies a side with eight forms each, how many call them different at 5 %."""
    found = 0
    for audit in range(60):
        rng = np.random.default_rng([3, audit])
        easy = rng.random(20) < 0.3
        fields = [
            Guessed(str(company if units else (company, form)), FOUND if easy[company] else LOST, LOST, True)
            for company in range(20)
            for form in range(8)
        ]
        test = put_back(fields[:80], fields[80:], 64, rng, resamples=20, permutations=199)
        assert test.permutation is not None
        found += test.permutation <= 0.05
    return found


def test_units_are_what_keeps_the_error_rate() -> None:
    """Where companies are dealt whole, forms are not independent: 9 or more of 60 at 5 % have a chance below 1 %."""
    assert significant(units=True) <= 8
    assert significant(units=False) > 8

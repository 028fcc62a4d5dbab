"""Result of new pages is utility; the mix of questions and pages does not make a gap."""

import numpy as np
import pandas as pd
import pytest

from pfl_audit.attacks.memorization.generalisation import Result, reading, strata
from pfl_audit.core.verdict import Budget
from pfl_audit.metrics.contrasts import item_gap, observed

from .simulated_answers import questions

WHOLE = Budget.shared(1)


def read(frame: pd.DataFrame, control: pd.DataFrame | None = None, budget: Budget = WHOLE) -> Result:
    return reading(frame, control, budget, np.random.default_rng(0))


def plain(frame: pd.DataFrame) -> float:
    groups = frame.groupby("unit", sort=True)
    return observed(
        item_gap(groups["acc"].sum().to_numpy(), groups.size().to_numpy()), groups["member"].first().to_numpy(bool)
    )


def test_better_reading_is_weak_at_most() -> None:
    found = read(questions(np.random.default_rng(0), better=0.3), budget=Budget.shared(12))
    assert found.p_value < 0.004
    assert found.value.lower_bound(0.004) > 0.1
    assert found.level == "weak"


@pytest.mark.parametrize("kind", ["mix", "long"])
def test_easier_questions_and_longer_pages_are_no_better_reading(kind: str) -> None:
    frame = questions(np.random.default_rng(1), 100, 100, **{kind: True})
    assert plain(frame) > 0.05
    found = read(frame)
    assert found.value.value == pytest.approx(0.0, abs=0.04)
    assert found.level == "none"


def test_strata_are_keys_by_tertiles_of_length() -> None:
    frame = questions(np.random.default_rng(0))
    found = pd.DataFrame({"stratum": strata(frame), "key": frame["key"], "words": frame["words"]})
    assert found["stratum"].nunique() == 9
    assert (found.groupby("stratum")["key"].nunique() == 1).all()
    ends = found.groupby(["key", "stratum"])["words"].agg(["min", "max"]).sort_values(["key", "min"])
    for _, some in ends.groupby("key"):
        assert (some["max"].to_numpy()[:-1] < some["min"].to_numpy()[1:]).all()


def test_a_control_that_reads_them_better_too_excuses_the_gap() -> None:
    frame = questions(np.random.default_rng(2), better=0.3)
    assert read(frame).level == "weak"
    found = read(frame, frame)
    assert found.over_control is not None
    assert found.over_control.value == 0.0
    assert found.level == "none"


@pytest.mark.parametrize(("members", "others", "heavy"), [(20, 20, True), (10, 90, False)])
def test_negative_control_classes_treated_alike(members: int, others: int, heavy: bool) -> None:
    """How often a sign is shown is counted by ``tests.bench.rates``."""
    rng = np.random.default_rng([3, members, 0])
    assert reading(questions(rng, members, others, heavy=heavy), None, WHOLE, rng).level in ("none", "unresolved")


def test_few_companies_are_no_comfort() -> None:
    assert read(questions(np.random.default_rng(0), 4, 4)).level == "unresolved"


def test_classes_without_a_stratum_in_common_cannot_be_compared() -> None:
    frame = questions(np.random.default_rng(0))
    found = read(frame.assign(key=np.where(frame["member"], "payment_terms", "subtotal")))
    assert found.level == "unresolved"

"""Memorization in sentences without technical terms, and what a finding needs."""

import numpy as np
import pytest

from pfl_audit.attacks.memorization.measures import ACC, EXPOSURE, RATIO, Memory, Result
from pfl_audit.attacks.memorization.plain import access_of, plain_sentence, success
from pfl_audit.attacks.memorization.scores import GapEstimate
from pfl_audit.documents.units import PROVIDER
from pfl_audit.metrics.intervals import Estimate


def estimate(value: float) -> Estimate:
    return Estimate(value, value, value, np.array([value]))


def memory(level: str, head: str = RATIO) -> Memory:
    made = {
        name: Result(name, 0.5, estimate(0.7), None, 0.001, 3.0, level, 0.6)  # type: ignore[arg-type]
        for name in (ACC, RATIO, EXPOSURE)
    }
    return Memory(tuple(made.values()), made[head], level, (80, 80), (50, 50))  # type: ignore[arg-type]


def answers(members: float, others: float) -> GapEstimate:
    return GapEstimate(estimate(members), estimate(others), estimate(members - others), (80, 80))


def test_values_that_come_out_are_counted() -> None:
    said = plain_sentence("provider name", memory("leak", EXPOSURE), answers(0.17, 0.0), PROVIDER)
    assert said == (
        "Of 100 pages without their provider name, of companies in training, the model answers 17 with the true one; "
        "of 100 pages of other companies, 0."
    )
    assert access_of(memory("leak", EXPOSURE), answers(0.17, 0.0)) == "answers"


@pytest.mark.parametrize(("members", "begins"), [(0.0, "The model says the email of no company"), (0.1, "An attacker")])
def test_no_value_is_said_only_where_none_came_out(members: float, begins: str) -> None:
    said = plain_sentence("email", memory("leak"), answers(members, 0.2), PROVIDER)
    assert said.startswith(begins)
    assert "in 70 of 100 cases, where guessing gives 50." in said
    assert access_of(memory("leak"), answers(members, 0.2)) == "scores"


def test_without_answers_no_share_is_told() -> None:
    assert plain_sentence("email", memory("leak"), None, PROVIDER).startswith("An attacker")
    assert success(None) == {}
    assert success(answers(0.2, 0.1)) == {"success": 0.2, "false_alarms": 0.1}


@pytest.mark.parametrize(
    ("level", "part"), [("weak", "a sign, not proof"), ("none", "not give"), ("unresolved", "cannot be said")]
)
def test_less_than_a_leak_is_said_so(level: str, part: str) -> None:
    assert part in plain_sentence("email", memory(level), answers(0.2, 0.1), PROVIDER)

"""Membership in sentences without technical terms."""

import numpy as np
import pytest

from pfl_audit.attacks.membership.decision import Compared, Decision, Judged
from pfl_audit.attacks.membership.evaluation import Outcome, Trial
from pfl_audit.attacks.membership.plain import plain_sentence, rates_of
from pfl_audit.attacks.membership.rows import every_row
from pfl_audit.documents.units import DOCUMENT, PROVIDER
from pfl_audit.metrics.intervals import Estimate

LABELS = np.array([True] * 50 + [False] * 50)


def outcome(access: str, found: dict[str, float]) -> Outcome:
    """30 of 50 members and 10 of 50 others are called members; ``found`` are the rates that can be resolved."""
    row = next(row for row in every_row() if row.access == access)
    calls = np.array([place < 30 for place in range(50)] + [place < 10 for place in range(50)])
    trial = Trial(np.arange(100), calls, calls.astype(float))
    estimates = {name: Estimate(value, value, value, np.array([value])) for name, value in found.items()}
    return Outcome(row, 5, LABELS, (trial,), estimates, {}, {}, {}, 0.5)


def judged(one: Outcome, level: str) -> Judged:
    return Judged(one, 0.001, {}, level, 0.6, 1.0)  # type: ignore[arg-type]


def decision(*attacks: Judged) -> Decision:
    return Decision(attacks[0].level, {one.outcome.row.access: (one,) for one in attacks}, attacks[0])


def test_the_lowest_false_alarm_rate_that_is_resolved_counts() -> None:
    rates = rates_of(outcome("PK", {"TPR at 3 % FPR": 0.37, "TPR at 10 % FPR": 0.6}))
    assert (rates.found, rates.accused, rates.members) == (0.37, 0.03, 50)


def test_hard_calls_have_the_rates_of_their_calls() -> None:
    rates = rates_of(outcome("ZK", {}))
    assert (rates.found, rates.accused) == (0.6, 0.2)


def test_a_leak_is_told_in_natural_frequencies() -> None:
    said = plain_sentence(decision(judged(outcome("ZK", {"TPR at 1 % FPR": 0.79}), "leak")), PROVIDER)
    assert said == (
        "Of 100 companies whose documents were in training, an outsider who can only ask questions picks out 79 while "
        "wrongly accusing 1 of 100 others."
    )


def test_the_outsider_is_told_beside_an_attacker_who_sees_more() -> None:
    strongest, outsider = outcome("PK", {"TPR at 3 % FPR": 0.37}), outcome("ZK", {})
    said = plain_sentence(decision(judged(strongest, "leak"), judged(outsider, "unresolved")), DOCUMENT)
    assert said.startswith("Of 100 documents that were in training, an attacker who also sees")
    assert said.endswith("these documents are too few to rule it out.")


@pytest.mark.parametrize(
    ("level", "said"), [("none", "does no better than with"), ("unresolved", "was not shown to do better than with")]
)
def test_an_attack_that_the_documents_explain_is_not_said_to_guess(level: str, said: str) -> None:
    """It is right far more often than by guessing, and so are the documents alone."""
    found, gap = (Estimate(value, value - 0.05, value + 0.05, np.array([value])) for value in (0.68, 0.01))
    one = outcome("ZK", {})
    one.estimates[one.metric] = found
    beside = {"documents": Compared(found, gap, lambda alpha: 0.0, 0.1)}
    for p_value, explained in ((0.001, True), (0.4, False)):
        told = plain_sentence(decision(Judged(one, p_value, beside, level, 0.7, 3.0)), PROVIDER)  # type: ignore[arg-type]
        assert (f"{said} the documents alone" in told) is explained
        assert ("by guessing" in told) is not explained


@pytest.mark.parametrize(("level", "part"), [("weak", "a sign, not proof"), ("none", "no better than by guessing")])
def test_less_than_a_leak_is_said_so(level: str, part: str) -> None:
    assert part in plain_sentence(decision(judged(outcome("ZK", {"TPR at 1 % FPR": 0.1}), level)), PROVIDER)

"""Membership in sentences without technical terms."""

from dataclasses import replace

import numpy as np
import pytest

from pfl_audit.attacks.membership.decision import Decision, Judged
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
    trial = Trial(np.arange(100), calls, calls.astype(float), calls.astype(float))
    estimates = {name: Estimate(value, value, value, np.array([value])) for name, value in found.items()}
    return Outcome(row, 5, LABELS, (trial,), estimates, {}, {}, 0.5)


def judged(one: Outcome, level: str) -> Judged:
    return Judged(one, None, Estimate(0.6, 0.5, 0.7, np.array([0.6])), 0.001, level, 0.6, 1.0, None)  # type: ignore[arg-type]


def decision(*attacks: Judged) -> Decision:
    by_access = {one.outcome.row.access: (one,) for one in attacks}
    return Decision(by_access, attacks[0], (), (1.6, 1.9))


def test_the_lowest_false_alarm_rate_that_is_resolved_counts() -> None:
    rates = rates_of(outcome("PK", {"TPR at 3 % FPR": 0.37, "TPR at 10 % FPR": 0.6}))
    assert rates == (0.37, 0.03)


def test_hard_calls_have_the_rates_of_their_calls() -> None:
    rates = rates_of(outcome("ZK", {}))
    assert rates == (0.6, 0.2)


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
    assert said.endswith("was found; these documents are too few to rule it out.")


@pytest.mark.parametrize(
    ("level", "ends"),
    [("none", "in four of five such audits."), ("unresolved", "these companies are too few to rule it out.")],
)
def test_an_attack_that_the_control_explains_is_not_said_to_guess(level: str, ends: str) -> None:
    one = outcome("ZK", {})
    for control, explained in ((one, True), (None, False)):
        told = plain_sentence(decision(replace(judged(one, level), control=control)), PROVIDER)
        assert (
            "over the same attack on a model that was not trained on these companies was found" in told
        ) is explained
        assert ("over guessing" in told) is not explained
        assert told.endswith(ends)


def test_where_nothing_can_be_concluded_the_reason_is_told_once() -> None:
    refused = [replace(judged(outcome(access, {}), "unresolved"), refusal="x fails") for access in ("PK", "ZK")]
    undecided = "companies' documents were in training cannot be decided, because x fails."
    assert plain_sentence(decision(*refused), PROVIDER) == f"Whether anyone can tell which {undecided}"
    told = plain_sentence(decision(judged(outcome("PK", {}), "leak"), refused[1]), PROVIDER)
    assert told.endswith(f" Whether an outsider who can only ask questions can tell which {undecided}")


def test_too_few_companies_are_counted() -> None:
    few = replace(outcome("ZK", {}), labels=np.arange(100) < 9)
    told = plain_sentence(decision(replace(judged(few, "unresolved"), refusal="x fails")), PROVIDER)
    assert told.endswith("because 9 companies of one class were attacked, and 20 of each class are needed.")


@pytest.mark.parametrize(
    ("control", "than"), [(True, "with this model than with one that was not"), (False, "than others")]
)
def test_a_leak_with_as_many_false_accusations_has_no_counts(control: bool, than: str) -> None:
    """The level is of the score less that of the control, the counts are of the score."""
    one = outcome("PK", {"TPR at 3 % FPR": 0.03})
    told = plain_sentence(decision(replace(judged(one, "leak"), control=one if control else None)), PROVIDER)
    assert f"ranks companies whose documents were in training higher {than}" in told
    assert told.endswith("; the difference is too small to pick them out.")


@pytest.mark.parametrize(
    ("level", "part"),
    [
        ("weak", "a sign, not proof; up to one in ten"),
        ("none", "over guessing was found; one that ranks 60 of 100 pairs"),
    ],
)
def test_less_than_a_leak_is_said_so(level: str, part: str) -> None:
    assert part in plain_sentence(decision(judged(outcome("ZK", {"TPR at 1 % FPR": 0.1}), level)), PROVIDER)

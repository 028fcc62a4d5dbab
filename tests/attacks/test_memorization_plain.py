"""Memorization in sentences without technical terms, and what a finding needs."""

from dataclasses import replace

import numpy as np
import pytest

from pfl_audit.attacks.memorization.generalisation import STRATIFIED
from pfl_audit.attacks.memorization.generalisation import _finding as generalisation_finding
from pfl_audit.attacks.memorization.measures import ACC, EXPOSURE, RATIO, Memory, Result
from pfl_audit.attacks.memorization.plain import access_of, plain_sentence
from pfl_audit.attacks.memorization.present import memory_finding, memory_metrics
from pfl_audit.attacks.memorization.scores import GapEstimate
from pfl_audit.documents.units import PROVIDER
from pfl_audit.metrics.intervals import Estimate

PAGES = [(f"page {number}", "x") for number in range(80)]


def estimate(value: float) -> Estimate:
    return Estimate(value, value, value, np.array([value]))


def memory(level: str, head: str = RATIO) -> Memory:
    made = {
        name: Result(name, 0.5, estimate(0.7), None, 0.001, 3.0, level, 0.6)  # type: ignore[arg-type]
        for name in (ACC, RATIO, EXPOSURE)
    }
    return Memory(tuple(made.values()), made[head], level, (80, 80), (50, 50))  # type: ignore[arg-type]


def answers(members: float, others: float) -> GapEstimate:
    return GapEstimate(estimate(members), estimate(others), estimate(members - others), (PAGES, PAGES))


def test_values_that_come_out_are_counted() -> None:
    said = plain_sentence("provider name", memory("leak", EXPOSURE), answers(0.17, 0.0), PROVIDER)
    assert said == (
        "Of 100 pages without their provider name, of companies in training, the model answers 17 with the true one; "
        "of 100 pages of other companies, 0."
    )
    assert access_of(memory("leak", EXPOSURE), answers(0.17, 0.0)) == "answers"


@pytest.mark.parametrize("members", [0.0, 0.1])
def test_none_and_few_values_that_came_out_are_said_alike(members: float) -> None:
    said = plain_sentence("email", memory("leak"), answers(members, 0.2), PROVIDER)
    assert said.startswith("An attacker who sees the model's scores")
    assert "in 70 of 100 cases, where guessing gives 50." in said
    assert access_of(memory("leak"), answers(members, 0.2)) == "scores"


def test_without_answers_no_share_is_told() -> None:
    assert plain_sentence("email", memory("leak"), None, PROVIDER).startswith("An attacker")
    for scores, rates in (({}, (None, None)), ({"ACC": answers(0.2, 0.1)}, (0.2, 0.1))):
        finding = memory_finding("email", memory("leak"), scores, None)
        assert (finding.success, finding.false_alarms) == rates


@pytest.mark.parametrize(
    ("level", "part"), [("weak", "a sign, not proof"), ("none", "not give"), ("unresolved", "cannot be said")]
)
def test_less_than_a_leak_is_said_so(level: str, part: str) -> None:
    assert part in plain_sentence("email", memory(level), answers(0.2, 0.1), PROVIDER)


def test_a_leak_of_scores_alone_is_not_told_as_one_of_answers() -> None:
    """Slightly more values come out of members, which is nothing by itself."""
    scored = memory("leak", EXPOSURE)
    results = tuple(replace(one, level="none") if one.name == ACC else one for one in scored.results)
    found = replace(scored, results=results)
    assert access_of(found, answers(0.02, 0.01)) == "scores"
    assert plain_sentence("email", found, answers(0.02, 0.01), PROVIDER).startswith("An attacker who sees")


def test_no_interval_is_printed_where_no_page_differs() -> None:
    gap = Result(ACC, 0.0, estimate(0.0), estimate(0.0), 1.0, 0.0, "none", 0.1)
    (metric,) = memory_metrics(Memory((gap,), gap, "none", (80, 80), (50, 50)), "control", PROVIDER)
    assert (metric.value, metric.ci) == (0.0, None)


def test_a_gap_that_the_control_has_too_is_not_denied() -> None:
    """Members' values come out more often, and from the control as well."""
    gap = Result(ACC, 0.0, estimate(0.2), estimate(0.0), 0.001, 3.0, "none", 0.1)
    found = Memory((gap,), gap, "none", (80, 80), (50, 50))
    finding = memory_finding("email", found, {"ACC": answers(0.3, 0.1)}, "control")
    assert "more than a control would seem to: 30.0 %" in finding.text
    assert "above the control model" in finding.text
    assert "than a model that was not trained on them" in (finding.plain or "")


@pytest.mark.parametrize(("over", "part"), [(None, "no better than others"), (0.0, "no better than a control does")])
def test_reading_that_is_explained_is_not_denied(over: float | None, part: str) -> None:
    above = None if over is None else estimate(over)
    found = Result(STRATIFIED, 0.0, estimate(0.1), above, 0.001, 3.0, "none", 0.1)
    said = generalisation_finding(found, answers(0.9, 0.8), PROVIDER)
    assert part in said.text
    assert part in (said.plain or "")
    assert ("above the control" in said.text) is (over is not None)

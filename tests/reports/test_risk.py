import pytest

from pfl_audit.reports.risk import RULE, STEPS, risk_of
from tests.reports.sample import found, review, whole
from tests.reports.test_html import results


def risk(level: str = "leak", access: str = "answers", obtains: str = "membership", release: str | None = None,
         unit: str = "providers", **numbers: object) -> tuple[int | None, int | None]:  # fmt: skip
    one = whole(finding=found(level, **numbers), review=review(access, obtains), subject="questions")
    base = results(one)
    data = [data.model_copy(update={"unit": unit}) for data in base.datasets]
    made = risk_of(one, base.model_copy(update={"release": release, "datasets": data}))
    return made.severity, made.likelihood


@pytest.mark.parametrize(
    ("obtains", "severity"), [("utility", 1), ("membership", 2), ("contact", 2), ("values", 3), ("documents", 4)]
)
def test_severity_is_by_the_kind_of_data(obtains: str, severity: int) -> None:
    assert risk(obtains=obtains)[0] == severity


def test_persons_are_a_step_more_and_utility_is_not() -> None:
    assert risk(unit="persons")[0] == 3
    assert risk(unit="persons", obtains="documents")[0] == 4
    assert risk(unit="persons", obtains="utility")[0] == 1


@pytest.mark.parametrize(
    ("success", "alarms", "likelihood"),
    [(0.79, 0.01, 4), (0.5, 0.1, 4), (0.3, 0.03, 3), (0.05, 0.01, 2), (0.9, 0.4, 2), (None, None, 2)],
)
def test_likelihood_is_by_success_at_a_low_false_alarm_rate(
    success: float | None, alarms: float | None, likelihood: int
) -> None:
    assert risk(success=success, false_alarms=alarms)[1] == likelihood


@pytest.mark.parametrize(("level", "likelihood"), [("leak", 4), ("weak", 3), ("none", 1), ("unresolved", None)])
def test_likelihood_is_by_level(level: str, likelihood: int | None) -> None:
    assert risk(level)[1] == likelihood


@pytest.mark.parametrize(
    ("release", "by_access"),
    [
        (None, {"answers": 4, "scores": 4, "weights": 4, "updates": 4}),
        ("public-api", {"answers": 4, "scores": 3, "weights": 2, "updates": 2}),
        ("internal", {"answers": 3, "scores": 3, "weights": 2, "updates": 2}),
        ("open-weights", {"answers": 4, "scores": 4, "weights": 4, "updates": 2}),
    ],
)
def test_likelihood_is_by_what_the_release_gives(release: str | None, by_access: dict[str, int]) -> None:
    assert {access: risk(access=access, release=release)[1] for access in by_access} == by_access


def test_the_rule_is_printed_with_every_step_that_it_uses() -> None:
    text = " ".join(RULE)
    assert all(step in text for step in STEPS)
    assert "at least 50 of 100" in text

import pytest

from pfl_audit.core.results import Check, Finding, Level
from pfl_audit.core.verdict import COMPARED, Budget, FailOn, at_most_weak, decide, exit_code, level_of


def check(level: Level | None = None, status: str = "ran") -> Check:
    finding = Finding(level=level, text="", remedy="") if level else None
    return Check(id="a.b", family="a", title="", status=status, finding=finding)


@pytest.mark.parametrize(
    ("p_value", "at_leak", "at_weak", "compared", "level"),
    [
        (0.01, 0.2, 0.3, 0.1, "leak"),
        (0.03, 0.2, 0.3, 0.1, "weak"),
        (0.05, 0.2, 0.3, 0.1, "none"),
        (0.01, -0.1, 0.1, 0.1, "weak"),
        (0.01, -0.2, -0.1, 0.1, "none"),
        (0.01, 0.0, 0.0, 0.1, "none"),
        (0.01, 0.2, 0.3, -0.1, "none"),
        (0.01, 0.2, 0.3, float("nan"), "none"),
        (0.01, float("nan"), float("nan"), 0.1, "unresolved"),
    ],
)
def test_levels(p_value: float, at_leak: float, at_weak: float, compared: float, level: Level) -> None:
    """A leak needs the permutation, the interval and what it is compared with to agree."""
    found = level_of(
        [0.001, p_value],
        [lambda alpha: 1.0, lambda alpha: at_leak if alpha == 0.02 else at_weak],
        Budget(0.02, 0.04),
        compared=[lambda alpha: 1.0, lambda alpha: compared if alpha == COMPARED else 1.0],
    )
    assert found == level


def test_none_is_said_only_where_an_effect_would_have_been_found() -> None:
    budget = Budget.shared(10)
    assert (budget.leak, budget.weak) == pytest.approx((0.005, 0.01))
    assert level_of([0.5], [lambda alpha: -1.0], budget) == "none"
    assert level_of([0.5], [lambda alpha: -1.0], budget, resolved=False) == "unresolved"
    assert level_of([0.001], [lambda alpha: 1.0], budget, resolved=False) == "leak"
    assert level_of([0.001], [lambda alpha: 1.0], budget, enough=False) == "unresolved"
    assert [at_most_weak(level) for level in ("leak", "weak", "none")] == ["weak", "weak", "none"]


def test_a_finding_needs_a_test_or_a_bound() -> None:
    assert level_of([0.001], [], Budget.shared(1)) == "leak"
    assert level_of([], [lambda alpha: 1.0], Budget.shared(1)) == "leak"
    with pytest.raises(ValueError, match="a test or a bound"):
        level_of([], [], Budget.shared(1))


def test_what_is_unresolved_counts_where_it_was_asked_for() -> None:
    checks = [check("none"), check("unresolved").model_copy(update={"id": "a.c"})]
    assert decide(checks, "leak").status == "no-evidence"
    assert "1 could not be resolved" in decide(checks, "leak").summary
    assert decide(checks, "leak", {"a.c"}).status == "incomplete"


@pytest.mark.parametrize(
    ("checks", "fail_on", "status", "code"),
    [
        ([check("leak"), check("none")], "leak", "leaks", 1),
        ([check("leak"), check(status="skipped")], "leak", "leaks", 1),
        ([check("leak")], "never", "leaks", 0),
        ([check("weak")], "leak", "no-evidence", 0),
        ([check("weak")], "weak", "no-evidence", 1),
        ([check("none")], "weak", "no-evidence", 0),
        ([check("none"), check(status="skipped")], "leak", "incomplete", 3),
        ([check("none"), check(status="failed")], "leak", "incomplete", 3),
        ([check("unresolved")], "leak", "incomplete", 3),
        ([], "leak", "incomplete", 3),
    ],
)
def test_verdict_and_exit_code(checks: list[Check], fail_on: FailOn, status: str, code: int) -> None:
    verdict = decide(checks, fail_on)
    assert verdict.status == status
    assert exit_code(verdict, checks) == code

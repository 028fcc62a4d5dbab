import pytest

from pfl_audit.core.audit_verdict import decide, exit_code
from pfl_audit.core.gate_policy import GatePolicy
from pfl_audit.core.results import Check, Finding, Level, Metric, ReviewFacts
from pfl_audit.core.review import Obtained
from pfl_audit.core.schema import FailOn
from pfl_audit.core.verdict import COMPARED, Budget, at_most_weak, level_of, with_interval_told


def check(
    level: Level | None = None, status: str = "ran", name: str = "a.b", obtains: Obtained = "membership"
) -> Check:
    finding = Finding(level=level, text="", remedy="") if level else None
    review = ReviewFacts(question="", classes=[], access="answers", obtains=obtains)
    return Check(id=name, family="a", title="", status=status, finding=finding, review=review)


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


@pytest.mark.parametrize(
    ("level", "ci", "chance", "told"),
    [
        ("weak", (-0.023, 0.389), 0.0, "two-sided at 95 % and holds +0.0 points; the level rests on one-sided"),
        ("leak", (-0.001, 0.389), 0.0, "tests at 5 %."),
        ("weak", (0.001, 0.389), 0.0, None),
        ("none", (0.021, 0.302), 0.0, "of this number alone, without +0.0 points; a sign needs"),
        ("unresolved", (0.021, 0.302), 0.0, "every test of the finding agrees at 10 %."),
        ("none", (-0.021, 0.302), 0.0, None),
        ("none", None, 0.0, None),
        ("none", (0.021, 0.302), None, None),
    ],
)
def test_a_level_that_its_interval_does_not_show_is_told(
    level: Level, ci: tuple[float, float] | None, chance: float | None, told: str | None
) -> None:
    """A reader who sees [-2.3, 38.9] beside a weak sign, or [0.021, 0.302] beside none, reads why."""
    number = Metric(name="gap", value=0.2, ci=ci, level=0.95, chance=chance, format="points")
    finding = Finding(level=level, text="Found.", remedy="", metric="gap")
    made = check().model_copy(update={"finding": finding, "metrics": [number]})
    text = with_interval_told(made, Budget.shared(1)).finding.text  # type: ignore[union-attr]
    assert text == "Found." if told is None else text.startswith("Found. The interval") and told in text


def test_a_finding_needs_a_test_or_a_bound() -> None:
    assert level_of([0.001], [], Budget.shared(1)) == "leak"
    assert level_of([], [lambda alpha: 1.0], Budget.shared(1)) == "leak"
    with pytest.raises(ValueError, match="a test or a bound"):
        level_of([], [], Budget.shared(1))


def test_what_is_unresolved_counts_where_it_was_asked_for() -> None:
    checks = [check("none"), check("unresolved").model_copy(update={"id": "a.c"})]
    assert decide(checks, "leak").status == "no-evidence"
    assert "1 could not be resolved" in decide(checks, "leak").summary
    asked = GatePolicy(named={"a.c": frozenset({"a.c"})})
    assert decide(checks, "leak", asked).status == "incomplete"


@pytest.mark.parametrize(("levels", "said"), [("leak weak", " 1 more showed"), ("none weak", " 1 showed a weak sign")])
def test_weak_signs_are_more_than_leaks_and_some_of_the_rest(levels: str, said: str) -> None:
    checks = [check(level, name=f"a.{level}") for level in levels.split()]  # type: ignore[arg-type]
    assert said in decide(checks, "leak").summary


@pytest.mark.parametrize("level", ["none", "weak"])
def test_how_well_a_model_reads_is_no_evidence_about_leaks(level: Level) -> None:
    reads = check(level, name="a.reads", obtains="utility")
    verdict = decide([reads, check("unresolved")], "leak")
    assert (verdict.status, exit_code(verdict)) == ("incomplete", 3)
    assert "nothing could be audited except how well the model reads" in verdict.summary
    assert decide([reads, check("none")], "leak").status == "no-evidence"
    assert decide([reads], "leak").status == "no-evidence"  # nothing else was asked for


def test_what_did_not_run_is_counted_in_the_summary() -> None:
    rows = [check("none"), check(status="skipped", name="a.c"), check(status="failed", name="a.d")]
    assert "2 of 3 checks did not run" in decide(rows, "leak").summary


SKIPPED = [check("none"), check(status="skipped", name="a.c")]
FAILED = [check("none"), check(status="failed", name="a.c")]
UNRESOLVED = [check("none"), check("unresolved", name="a.c")]
FAMILY = {"a": frozenset({"a.b", "a.c"})}
ONE = {"a.c": frozenset({"a.c"})}


@pytest.mark.parametrize(
    ("checks", "fail_on", "policy", "status", "code"),
    [
        ([check("leak"), check("none")], "leak", {}, "leaks", 1),
        ([check("leak"), check(status="skipped")], "leak", {}, "leaks", 1),
        ([check("leak")], "never", {}, "leaks", 0),
        ([check("weak")], "leak", {}, "no-evidence", 0),
        ([check("weak")], "weak", {}, "no-evidence", 1),
        ([check("none")], "weak", {}, "no-evidence", 0),
        # What did not run changes the code only where it was required.
        (SKIPPED, "leak", {}, "no-evidence", 0),
        (FAILED, "leak", {}, "no-evidence", 0),
        (UNRESOLVED, "leak", {}, "no-evidence", 0),
        (SKIPPED, "leak", {"named": ONE}, "incomplete", 3),
        (FAILED, "leak", {"named": ONE}, "incomplete", 3),
        (UNRESOLVED, "leak", {"named": ONE}, "incomplete", 3),
        (SKIPPED, "leak", {"named": FAMILY}, "no-evidence", 0),
        (SKIPPED[1:], "leak", {"named": FAMILY}, "incomplete", 3),
        # Where findings never fail, --require alone does.
        (SKIPPED, "never", {"named": ONE}, "incomplete", 0),
        (SKIPPED, "never", {"required": ONE}, "incomplete", 3),
        (UNRESOLVED, "never", {"required": ONE}, "incomplete", 3),
        (SKIPPED, "never", {"required": FAMILY}, "no-evidence", 0),
        ([check("leak"), check(status="skipped", name="a.c")], "leak", {"required": ONE}, "leaks", 1),
        ([check("leak"), check(status="skipped", name="a.c")], "never", {"required": ONE}, "leaks", 3),
        # Nothing at all.
        ([check("unresolved")], "leak", {}, "incomplete", 3),
        ([check("unresolved")], "never", {}, "incomplete", 0),
        ([check(status="skipped")], "leak", {}, "incomplete", 3),
        ([], "leak", {}, "incomplete", 3),
    ],
)
def test_verdict_and_exit_code(
    checks: list[Check], fail_on: FailOn, policy: dict[str, dict[str, frozenset[str]]], status: str, code: int
) -> None:
    verdict = decide(checks, fail_on, GatePolicy(**policy))
    assert verdict.status == status
    assert exit_code(verdict) == code

import pytest

from pfl_audit.audit.results import Check, Finding, Level
from pfl_audit.audit.verdict import FailOn, decide, exit_code, level_of


def check(level: Level | None = None, status: str = "ran") -> Check:
    finding = Finding(level=level, text="", remedy="") if level else None
    return Check(id="a.b", family="a", title="", status=status, finding=finding)


@pytest.mark.parametrize(
    ("lower", "adjusted", "enough", "level"),
    [
        (0.6, 0.55, True, "leak"),
        (0.52, 0.49, True, "weak"),
        (0.49, 0.4, True, "none"),
        (0.5, 0.5, True, "none"),
        (0.9, 0.9, False, "unresolved"),
        (float("nan"), 0.6, True, "unresolved"),
    ],
)
def test_levels(lower: float, adjusted: float, enough: bool, level: Level) -> None:
    assert level_of(lower, adjusted, 0.5, enough=enough) == level


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

"""What a gate decided, in the terminal, whatever results.json holds."""

from pathlib import Path

import pytest

from pfl_audit.cli.summary import show_verdict
from pfl_audit.core.gates import gate_lines
from pfl_audit.core.numbers import headline
from tests.reports.made import results, with_hostile_texts

Capture = pytest.CaptureFixture[str]


def test_gates_waivers_and_the_baseline_are_printed(capsys: Capture) -> None:
    made = results()
    show_verdict(made, Path("run"), [Path("run/report.html")])
    printed = capsys.readouterr().out
    for line in gate_lines(made.verdict.gate):
        assert line in printed
    assert (
        "gate failed: a.leak: a.leak : gap <= 3 points found: +9.0 points, the upper end of its interval; found"
        in printed
    )
    assert "waiver used: c.*, until 2026-12-31, by found: found" in printed
    assert "required, and not audited: b.skipped" in printed
    assert "baseline: found of 2026-11-01" in printed


def test_the_name_of_a_number_is_printed_whole(capsys: Capture) -> None:
    made = results()
    at, check = next((at, one) for at, one in enumerate(made.checks) if headline(one) is not None)
    long = "secrets put back over public knowledge within guesses"
    metrics = [one.model_copy(update={"name": long}) for one in check.metrics[:1]]
    assert check.finding is not None
    finding = check.finding.model_copy(update={"metric": long, "slice": metrics[0].slice})
    checks = [*made.checks]
    checks[at] = check.model_copy(update={"metrics": metrics, "finding": finding})
    show_verdict(made.model_copy(update={"checks": checks}), Path("run"), [])
    printed = capsys.readouterr().out
    assert all(word in printed for word in long.split())
    assert "…" not in printed


def test_no_text_of_results_reaches_the_terminal_as_a_code(capsys: Capture) -> None:
    """Every text field, found by walking what results hold."""
    count = 0
    for where, hostile in with_hostile_texts():
        show_verdict(hostile, Path("run"), [])
        printed = capsys.readouterr().out
        assert not {"\x1b", "\x07", "\u202e", "\x7f"} & set(printed), where
        count += 1
    assert count > 60

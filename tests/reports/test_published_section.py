"""Papers' numbers and choices in the report and in the terminal."""

from pathlib import Path

import pytest

from pfl_audit.cli.summary import show_verdict
from pfl_audit.reports.html import to_html
from tests.reports.made import results

Capture = pytest.CaptureFixture[str]


def test_the_report_has_the_papers_numbers_beside_ours(tmp_path: Path) -> None:
    page = to_html(results("Table <9>"), tmp_path)
    section = page.split('<section id="published">')[1].split("</section>")[0]
    for part in ("Table &lt;9&gt;", "+4.0 points", "3.5", "+0.5", "ours"):
        assert part in section
    assert "Table <9>" not in page


def test_the_report_names_the_settings_that_are_the_papers(tmp_path: Path) -> None:
    page = to_html(results(), tmp_path)
    assert page.count("settings as published: found") == 2  # at its head, and beside the check's numbers
    assert "(as published)" in page


def test_a_report_without_a_paper_says_nothing_of_one(tmp_path: Path) -> None:
    made = results(published=[])
    checks = [check.model_copy(update={"as_published": None}) for check in made.checks]
    page = to_html(made.model_copy(update={"checks": checks}), tmp_path)
    assert "published" not in page.split("</style>")[1].replace("Published", "")


def test_the_terminal_has_both(tmp_path: Path, capsys: Capture) -> None:
    show_verdict(results(), tmp_path, [])
    said = capsys.readouterr().out
    assert "a: settings as published: found" in said
    assert "beside the paper" in said
    assert "3.5" in said
    assert "+0.5" in said

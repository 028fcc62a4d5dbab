"""Gates, waivers and the baseline in the report."""

from pathlib import Path

from markupsafe import escape

from pfl_audit.core.gates import gate_lines
from pfl_audit.reports.html import to_html
from tests.reports.made import results, with_hostile_texts


def test_the_report_prints_every_line_of_the_gate(tmp_path: Path) -> None:
    made = results()
    page = to_html(made, tmp_path)
    lines = gate_lines(made.verdict.gate)
    assert len(lines) == 9
    assert all(f"<dd>{escape(line)}</dd>" in page for line in lines)


def test_no_text_of_a_gate_is_markup(tmp_path: Path) -> None:
    for where, hostile in with_hostile_texts():
        if where.startswith("verdict"):
            assert "<b>" not in to_html(hostile, tmp_path), where

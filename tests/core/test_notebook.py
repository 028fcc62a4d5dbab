"""Results in a notebook cell."""

from pathlib import Path

from pfl_audit.core.results import Check, read_results
from tests.reports.test_html import HOSTILE, check, results, tags

KEPT = Path(__file__).parents[1] / "data/results-v1"


def test_a_cell_shows_the_verdict_and_the_findings() -> None:
    html = read_results(KEPT / "forms")._repr_html_()
    assert html.startswith("<div><strong>Incomplete</strong>: No leak was found")
    assert (
        "<td>Unresolved</td><td>Reconstruction of scrubbed fields, one attempt each</td><td>improvement factor</td>"
        "<td>15.904</td><td>[7.684, 34.730]</td><td>1.000</td>"
    ) in html


def test_parts_of_a_finding_have_no_row_and_missing_checks_say_why() -> None:
    skipped = Check(id="a.b", family="a", title="Second", status="skipped", reason="needs losses")
    html = results(check(), check("a.c", "Third", part_of="a.b"), skipped)._repr_html_()
    assert html.count("<tr>") == 3
    assert "<td>Not run</td><td>Second</td><td>needs losses</td>" in html
    assert "Third" not in html


def test_nothing_in_a_cell_is_obeyed() -> None:
    html = results(check(text=HOSTILE), text=HOSTILE)._repr_html_()
    assert {tag for tag, _ in tags(html)} == {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert not any(attributes for _, attributes in tags(html))

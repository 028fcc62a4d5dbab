"""A large results.json gives a page of bounded size; `python -m tests.bench.results_file` has the time."""

from pathlib import Path

import pytest

from pfl_audit.core.results import Curve, Results, Series
from pfl_audit.reports.html import to_html
from tests.reports.test_html import check, metric, results

MEGABYTE = 1_000_000


def large(checks: int = 1000, curves: int = 100, points: int = 10_000) -> Results:
    """Results with many checks, of which the first have a curve of so many points."""
    x = [place / points for place in range(points)]
    kinds = ("roc", "line", "step", "scatter")

    series = [Series(name=f"attack {part}", x=x, y=[value ** (1 + part) for value in x]) for part in range(3)]
    made = [Curve(title="", kind=kind, x_label="x", y_label="y", series=series) for kind in kinds]

    def curve(number: int) -> Curve:
        return made[number % 4].model_copy(update={"title": f"Curve {number}"})

    numbers = [metric(slice={"s": s, "model": model}) for s in (0, 5, 10) for model in ("target", "control")]
    every = [
        check(
            f"family.check-{number}",
            f"Check {number}",
            metrics=numbers,
            curves=[curve(number)] if number < curves else [],
            evidence=[],
        )
        for number in range(checks)
    ]
    return results(*every)


@pytest.mark.slow
def test_a_thousand_checks_and_a_hundred_curves_fit_into_five_megabytes(tmp_path: Path) -> None:
    page = to_html(large(), tmp_path)
    assert page.count('role="img"') == 100
    assert page.count("<summary>960 more rows</summary>") == 1
    assert len(page.encode()) <= 5 * MEGABYTE

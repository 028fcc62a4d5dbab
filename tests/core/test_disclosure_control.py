"""Contents of a masked report: sets of five units and more, rounded numbers, and none that can be subtracted."""

from __future__ import annotations

import numpy as np
import pytest

from pfl_audit.core.coarse_text import band, coarse_number, coarse_text, ladder
from pfl_audit.core.disclosure_control import Totals, concerns_few, share
from pfl_audit.core.metric import build_metric
from pfl_audit.core.results import Curve, Evidence, Finding, Metric, Results, Series, Table
from pfl_audit.metrics.intervals import Estimate
from pfl_audit.reports.view import arrange
from tests.reports.test_html import check, results


def items(*numbers: int, unit: int = 1) -> frozenset[tuple[str, str]]:
    """Pages by number; ``unit`` of them belong to a company."""
    return frozenset((f"page {number}", f"company {number // unit}") for number in numbers)


def total(pages: frozenset[tuple[str, str]], value: float | None = 0.4, slice_: str = "all pages") -> Metric:
    found = None if value is None else Estimate(value, value - 0.1, value + 0.1, np.empty(0))
    about = {"pages": slice_, "model": "target"}
    return build_metric("ACC members", found, format="percent", n=len(pages), unit="pages", about=about, items=pages)


def audit(*metrics: Metric, **parts: object) -> Results:
    one = check("memorization.provider_name", "Name", **{"metrics": list(metrics), **parts})
    return results().model_copy(update={"checks": [one]})


def shown(*metrics: Metric, before: Totals | None = None, smallest: int = 5) -> tuple[list[Metric], Totals]:
    found, totals = share(audit(*metrics), smallest, b"key", before or Totals())
    return found.checks[0].metrics, totals


def test_sets_that_differ_by_few_companies_concern_few() -> None:
    assert not concerns_few([items(*range(40))], 5)
    assert not concerns_few([items(*range(40)), items(*range(35))], 5)
    assert concerns_few([items(*range(40)), items(*range(36))], 5)


def test_pages_of_few_companies_are_few_however_many_they_are() -> None:
    whole, part = items(*range(40), unit=4), items(*range(24), unit=4)
    assert concerns_few([whole, part], 5)
    assert not concerns_few([whole, part], 4)


def test_a_combination_of_three_sets_is_found() -> None:
    """A + B - C counts the pages that A and B share, which are those of two companies."""
    first, second, union = items(*range(20)), items(*range(18, 40)), items(*range(40))
    assert not any(concerns_few(pair, 5) for pair in ((first, second), (first, union), (second, union)))
    assert concerns_few([first, second, union], 5)


def test_of_two_slices_the_finding_s_is_published() -> None:
    whole, clean = total(items(*range(40))), total(items(*range(38)), 0.38, "no residual clue")
    finding = Finding(level="leak", text="x", remedy="x", metric="ACC members", slice=clean.slice)
    found, _ = share(audit(whole, clean, finding=finding), 5, b"key", Totals())
    one, other = found.checks[0].metrics
    assert (one.value, one.n, one.ci) == (None, None, None)
    assert "fewer than 5" in str(one.note)
    assert other.value == 0.4
    assert found.checks[0].finding is not None
    assert found.checks[0].finding.level == "leak"


def test_a_slice_of_few_units_is_not_published() -> None:
    (few,), _ = shown(total(items(0, 1, 2, 3)))
    (enough,), _ = shown(total(items(0, 1, 2, 3, 4)))
    assert (few.value, enough.value is not None) == (None, True)
    (unknown,), _ = shown(build_metric("ACC", 0.5, format="percent", n=4))
    assert unknown.value is None


def test_a_rate_is_rounded_to_its_half_width_and_its_number_is_a_band() -> None:
    (one,), _ = shown(total(items(*range(40)), 0.432))
    assert (one.value, one.ci, one.step) == (0.4, (0.3, 0.6), 0.1)
    assert str(one.n) == "20 to 49"


def test_a_rate_of_none_or_all_is_a_bound() -> None:
    assert coarse_number(0.0, (0.0, 0.06), 0.05, share=True) == (0.1, (0.0, 0.1), "at most")
    assert coarse_number(0.02, (0.0, 0.06), 0.05, share=True) == coarse_number(0.0, (0.0, 0.06), 0.05, share=True)
    assert coarse_number(1.0, (0.94, 1.0), 0.05, share=True) == (0.9, (0.9, 1.0), "at least")
    assert coarse_number(0.0, (-0.1, 0.1), 0.1, share=True) == (0.0, (-0.1, 0.1), None)
    (count,), _ = shown(build_metric("secrets", 0.0, format="integer", n=50))
    assert (count.value, count.bound) == (5, "at most")


def test_a_company_that_comes_leaves_the_number_as_it_was() -> None:
    _, kept = shown(total(items(*range(40)), 0.44))
    (same,), later = shown(total(items(*range(41)), 0.46), before=kept)
    (other,), _ = shown(total(items(*range(41)), 0.46))
    assert (same.value, other.value) == (0.4, 0.5)
    assert later == kept


def test_a_number_that_those_who_came_may_have_moved_is_not_published() -> None:
    _, kept = shown(total(items(*range(10)), 0.2))
    (moved,), _ = shown(total(items(*range(12)), 0.55), before=kept)
    assert moved.value is None
    assert "came or left" in str(moved.note)
    (model,), _ = shown(total(items(*range(12)), 0.96), before=kept)
    assert model.value == 1.0


def test_five_companies_that_come_are_enough() -> None:
    _, kept = shown(total(items(*range(40)), 0.44))
    (one,), later = shown(total(items(*range(45)), 0.46), before=kept)
    assert one.value == 0.5
    assert len(later.numbers) == 1


def test_the_smallest_group_is_a_setting() -> None:
    assert [shown(total(items(*range(8))), smallest=size)[0][0].value for size in (8, 9)] == [0.5, None]


def test_exact_corners_of_a_curve_are_moved_to_a_grid_and_points_of_companies_left_out() -> None:
    series = Series(name="a", x=[0.0, 0.018, 0.44, 1.0], y=[0.0, 0.27, 0.63, 1.0])
    curves = [
        Curve(title=kind, kind=kind, x_label="x", y_label="y", series=[series])  # type: ignore[arg-type]
        for kind in ("roc", "scatter")
    ]
    found, _ = share(audit(curves=curves), 5, b"key", Totals())
    (curve,) = found.checks[0].curves
    assert (curve.series[0].x, curve.series[0].y) == ([0.0, 0.4, 1.0], [0.3, 0.6, 1.0])


@pytest.mark.parametrize(("rows", "left"), [(3, 0), (7, 5), (12, 10), (67, 50)])
def test_a_list_of_companies_ends_at_the_lower_end_of_a_band(rows: int, left: int) -> None:
    table = Table(title="x", columns=["Provider"], rows=[[f"provider {number:08x}"] for number in range(rows)])
    found, _ = share(audit(tables=[table]), 5, b"key", Totals())
    assert len(found.checks[0].tables[0].rows) == left


def test_fewer_pages_than_are_shown_are_not_shown() -> None:
    pages = [Evidence(title="x")] * 3
    for most, left in ((3, 3), (4, 0)):
        found, _ = share(audit(evidence=pages, settings={"shown_pages": most}), 5, b"key", Totals())
        assert len(found.checks[0].evidence) == left


def test_digests_are_keyed_and_counts_are_bands() -> None:
    exact = results()
    one, again, other = (share(exact, 5, key, Totals())[0].datasets[0] for key in (b"a", b"a", b"b"))
    assert one.sha256 == again.sha256
    assert len({exact.datasets[0].sha256, one.sha256, other.sha256}) == 3
    assert not isinstance(one.documents, int)


def test_records_that_could_not_be_used_are_counted_in_a_masked_report() -> None:
    data = results().datasets[0].model_copy(update={"unusable": {"no words": 12, "no box": 3}, "problems": ["x"] * 15})
    masked, _ = share(results().model_copy(update={"datasets": [data]}), 5, b"key", Totals())
    view = arrange(masked)
    assert {reason: str(count) for reason, count in view.unusable.items()} == {
        "no words": "10 to 19",
        "no box": "fewer than 5",
    }
    assert (str(view.left_out), len(view.problems)) == ("10 to 23", 10)


@pytest.mark.parametrize(
    ("exact", "coarse"),
    [
        ("92.0 % of 537 questions", "about 90 % of 500 to 999 questions"),
        ("ranks 1.86 bits [1.48, 2.25] higher", "ranks about 2.0 bits [1.0, 2.5] higher"),
        ("Of 100 pages, the model answers 17; of 100 others, 0.", "Of 100 pages, the model answers about 20; "
         "of 100 others, fewer than 5."),
        ("0.0 % [0.0 %, 8.8 %]", "at most 10 % [0, 10]"),
        ("100.0 % [100.0 %, 100.0 %]", "at least 90 % [90, 100]"),
        ("p = 0.00075 (permutation)", "p = 0.001 (permutation)"),
        ("with more than 5 questions each, over 50 draws", "with more than 5 questions each, over 50 draws"),
        ("page 54467165: it cannot be read", "page 54467165: it cannot be read"),
        ("clues (fragment on 3, domain on 12)", "clues (fragment on fewer than 5, domain on 10 to 19)"),
    ],
)  # fmt: skip
def test_numbers_in_sentences_are_rounded_and_settings_are_not(exact: str, coarse: str) -> None:
    assert coarse_text(exact, 5) == coarse


def test_steps_and_bands_follow_1_2_and_5() -> None:
    assert [ladder(value) for value in (0.0, 0.011, 0.02, 0.3, 7.0)] == [0.0, 0.02, 0.02, 0.5, 10.0]
    assert [str(band(count, 5)) for count in (0, 4, 5, 9, 10, 49, 50, 100, 1999)] == [
        "fewer than 5", "fewer than 5", "5 to 9", "5 to 9", "10 to 19", "20 to 49", "50 to 99", "100 to 199",
        "1,000 to 1,999",
    ]  # fmt: skip
    assert str(band(17, 17)) == "17 to 19"

"""Contents of a masked report: sets of five units and more, rounded numbers, and none that can be subtracted."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_audit.core.coarse_text import CoarseText, band, coarse_number, ladder
from pfl_audit.core.disclosure_control import Totals, concerns_few, share
from pfl_audit.core.metric import build_metric
from pfl_audit.core.results import Curve, Evidence, Finding, GuaranteeReview, Metric, Results, Series, Table
from pfl_audit.core.schema import LimitResult
from pfl_audit.metrics.intervals import Estimate
from pfl_audit.reports.coverage import documentation
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


def test_totals_with_too_many_combinations_are_not_published() -> None:
    rng, sets, refused = np.random.default_rng(1), list[frozenset[tuple[str, str]]](), 0
    for _ in range(12):  # by trying all combinations these would take hours
        drawn = items(*np.flatnonzero(rng.random(60) < 0.8).tolist())
        if concerns_few([*sets, drawn], 5):
            refused += 1
        else:
            sets.append(drawn)
    assert sets
    assert refused


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


def test_four_companies_that_other_sets_tell_apart_are_few() -> None:
    """A minus B is about four companies, of which C holds two: four atoms of one company each."""
    rest, others = range(10, 30), range(30, 50)
    assert concerns_few([items(0, 2, *others), items(0, 1, *rest), items(2, 3, *rest)], 5)
    assert not concerns_few([items(0, 2, *others), items(0, 1, *rest), items(2, 3, *rest)], 4)


def test_what_earlier_sets_say_alone_is_no_fault_of_the_last() -> None:
    pair = [items(*range(40)), items(*range(39))]
    assert concerns_few(pair, 5)
    assert not concerns_few([*pair, items(*range(100, 140))], 5)
    assert not concerns_few([*pair, pair[0]], 5)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.frozensets(st.integers(0, 6), min_size=1), min_size=1, max_size=4, unique=True), st.integers(2, 6))
def test_few_are_found_like_by_trying_all_subsets(sets: list[frozenset[int]], smallest: int) -> None:
    """Combinations about some units alone are as many as the rank falls without them; the last set adds one."""
    pages = [items(*one) for one in sets]
    units = sorted(set().union(*sets))
    matrix = np.array([[unit in one for one in sets] for unit in units], dtype=float)

    def about(columns: np.ndarray, some: tuple[int, ...]) -> int:
        rest = np.delete(columns, some, axis=0)
        return np.linalg.matrix_rank(columns) - (np.linalg.matrix_rank(rest) if rest.size else 0)

    every = chain.from_iterable(combinations(range(len(units)), size) for size in range(1, smallest))
    wanted = any(about(matrix, some) > about(matrix[:, :-1], some) for some in every)
    assert concerns_few(pages, smallest) == wanted


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
    assert len(later.numbers) == 2


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
         "of 100 others, up to 10."),
        ("0.0 % [0.0 %, 8.8 %]", "at most 10 % [0, 10]"),
        ("100.0 % [100.0 %, 100.0 %]", "at least 90 % [90, 100]"),
        ("p = 0.00075 (permutation)", "p = 0.001 (permutation)"),
        ("with more than 5 questions each, over 50 draws", "with more than 5 questions each, over 50 draws"),
        ("page 54467165: it cannot be read", "page 54467165: it cannot be read"),
        ("clues (fragment on 3, domain on 12)", "clues (fragment on fewer than 5, domain on 10 to 19)"),
        ("rapidocr 3.10.0, version 2.5", "rapidocr 3.10.0, version 2.5"),
        ("at 2026-11-28T14:05:09 with seed 17", "at 2026-11-28T14:05:09 with seed 17"),
        ("epsilon 8.25 at delta 1e-05, delta = 0.00123", "epsilon 8.25 at delta 1e-05, delta = 0.00123"),
        ("10^-5 of them, 2^20 guesses", "10^-5 of them, 2^20 guesses"),
        ("at 36.9 dB inside", "at about 40 dB inside"),
        ("target 92.1 and 85.3 %", "target about 90 and about 90 %"),
        ("its ANLS is 87 %, at least 50 % of it is needed", "its ANLS is about 90 %, at least 50 % of it is needed"),
        ("runs/2031/v12 holds 12 pages", "runs/2031/v12 holds 10 to 19 pages"),
        ("12/40 companies", "10 to 19/20 to 49 companies"),
        ("2 to 4", "2 to 4"),
        ("5 or more", "5 or more"),
        ("0.7 to 0.8", "0.7 to 0.8"),
        ("1,000 to 1,999 of 3", "1,000 to 1,999 of fewer than 5"),
        ("of 100 others, fewer than 1", "of 100 others, up to 10"),
    ],
)  # fmt: skip
def test_numbers_in_sentences_are_rounded_and_settings_are_not(exact: str, coarse: str) -> None:
    assert CoarseText(5)(exact) == coarse


def test_a_number_of_a_sentence_or_a_cell_is_that_of_its_metric() -> None:
    exact = total(items(*range(12)), 0.432)
    finding = Finding(level="leak", text="43.2 % [33.2, 53.2] and 43.2 %", plain="of 100 pages, 43", remedy="x",
                      metric=exact.name, slice=exact.slice)  # fmt: skip
    table = Table(title="x", columns=["a", "p"], rows=[["43.2 % [33.2 %, 53.2 %]", "0.0007"]])
    found, _ = share(audit(exact, finding=finding, tables=[table]), 5, b"key", Totals())
    (one,) = found.checks[0].metrics
    assert (one.value, one.ci, one.step) == (0.4, (0.2, 0.6), 0.2)
    said = found.checks[0].finding
    assert said is not None
    assert said.text == "about 40 % [20, 60] and about 40 %"
    assert said.plain == "of 100 pages, about 40"
    assert found.checks[0].tables[0].rows == [["about 40 % [20, 60]", "0.001"]]


def test_a_finding_s_number_that_is_not_published_is_in_no_sentence() -> None:
    few = total(items(*range(8), unit=2), 0.375)
    finding = Finding(level="leak", text="a gap of 37.5 points [27.5, 47.5], 22.2 % elsewhere, p = 0.03", remedy="x",
                      plain="Of 100 pages, 38.", metric=few.name, slice=few.slice, success=0.375)  # fmt: skip
    found, _ = share(audit(few, finding=finding), 5, b"key", Totals())
    said = found.checks[0].finding
    assert said is not None
    assert said.text == "a gap of not published, not published elsewhere, p = not published"
    assert (said.plain, said.success) == ("Of 100 pages, not published.", None)


def test_a_number_as_it_was_published_before_is_so_in_sentences_with_today_s_note() -> None:
    def release(count: int, value: float, before: Totals) -> tuple[Results, Totals]:
        one = total(items(*range(count)), value).model_copy(update={"note": f"p = {value}"})
        text = f"{100 * value:.1f} % [{100 * value - 10:.1f}, {100 * value + 10:.1f}]"
        finding = Finding(level="leak", text=text, remedy="x", metric=one.name, slice=one.slice)
        one = one.with_behind(np.empty(0), items(*range(count)))
        return share(audit(one, finding=finding), 5, b"key", before)

    _, kept = release(40, 0.44, Totals())
    later, _ = release(41, 0.46, kept)
    (one,), said = later.checks[0].metrics, later.checks[0].finding
    assert (one.value, one.note) == (0.4, "p = 0.5")
    assert said is not None
    assert said.text == "about 40 % [30, 60]"


def test_an_earlier_release_is_remembered_beside_the_newest() -> None:
    """The third release has one company less than the first, and ten less than the second."""
    _, first = shown(total(items(*range(40)), 0.44))
    _, second = shown(total(items(*range(50)), 0.46), before=first)
    assert len(second.numbers) == len(second.sets) == 2
    (third,), _ = shown(total(items(*range(39)), 0.99), before=second)
    assert third.value != 1.0


def test_of_members_others_and_their_gap_no_two_give_a_third_that_is_hidden() -> None:
    """Members of both slices differ by two companies, others by six."""
    sides = {"all pages": (range(30), range(100, 130)), "no residual clue": (range(28), range(100, 124))}
    metrics = []
    for slice_, (inside, outside) in sides.items():
        parts = {"members": items(*inside), "non-members": items(*outside), "gap": items(*inside, *outside)}
        for name, pages in parts.items():
            metrics.append(total(pages, slice_=slice_).model_copy(update={"name": f"ACC {name}"}))
            metrics[-1] = metrics[-1].with_behind(np.empty(0), pages)
    published = [one.value is not None for one in shown(*metrics)[0]]
    assert published == [True, True, True, False, True, False]


def test_none_and_few_look_alike() -> None:
    columns = ["Page", "Clues"]
    tables = [
        Table(
            title="x", columns=columns, rows=[[f"page {one:08x}", "word"] for one in range(some)], note=f"{some} in all"
        )
        for some in (0, 4)
    ]
    found, _ = share(audit(tables=tables), 5, b"key", Totals())
    assert found.checks[0].tables[0] == found.checks[0].tables[1]
    counts = [results().datasets[0].model_copy(update={"members": some, "parts": {"x": some}}) for some in (0, 4)]
    one, other = (share(results().model_copy(update={"datasets": [data]}), 5, b"", Totals())[0] for data in counts)
    assert one.datasets == other.datasets
    secrets = [build_metric("secrets", float(some), format="integer", n=50) for some in (0, 4)]
    assert len({str(shown(one)[0][0].value) + str(shown(one)[0][0].bound) for one in secrets}) == 1


def test_chance_is_rounded_like_its_number_and_one_by_design_is_not() -> None:
    def chance(value: float, chance: float) -> float | None:
        found = Estimate(value, value - 0.2, value + 0.2, np.empty(0))
        return shown(build_metric("accuracy", found, format="percent", n=40, chance=chance))[0][0].chance

    assert [chance(0.6, one) for one in (0.5094, 0.5, 0.62, 0.01, 0.0)] == [0.5, 0.5, 0.7, 0.01, 0.0]
    (hidden,), _ = shown(build_metric("accuracy", 0.5, format="percent", n=4, chance=0.5094))
    assert hidden.chance is None


def test_what_has_no_value_keeps_its_reason() -> None:
    (one,), kept = shown(build_metric("accuracy", None, n=3, note="only 3 members have more than 10 questions"))
    assert one.note == "only fewer than 5 members have more than 10 questions"
    assert not kept.numbers


def test_counts_of_the_training_record_are_bands_and_its_guarantee_is_as_stated() -> None:
    review = GuaranteeReview(claim=None, worth="holds", text="epsilon 8.00 for the 30 rounds that were run")
    claim = {"rounds": 30, "data": {"documents": 1234, "providers": 3}}
    exact = results()
    target = exact.target.model_copy(update={"training_claim": claim, "claim_review": review})
    found, _ = share(exact.model_copy(update={"target": target}), 5, b"", Totals())
    assert found.target.claim_review == review
    assert found.target.training_claim == {
        "rounds": 30, "data": {"documents": "1,000 to 1,999", "providers": "fewer than 5"}
    }  # fmt: skip
    ratio = next(one for one in documentation(found) if "Ratio" in one.what)
    assert ratio.supplied == "1,000 to 1,999 documents to 3 parameters, as the training record states"


def test_gates_say_no_more_than_the_rounded_number() -> None:
    """Limits beside the exact number would be a search for it: 43.1 % fails, 43.3 % passes."""
    one = total(items(*range(40)), 0.432)
    exact = audit(one)
    numbers = [
        LimitResult(gate=f"{exact.checks[0].id}: acc_members <= {limit} % on estimate", check=exact.checks[0].id,
                    status=status, metric=one.name, slice=one.slice, compared=0.432, end="estimate",
                    limit=limit / 100, format="percent")
        for limit, status in ((43.1, "failed"), (43.3, "passed"))
    ]  # fmt: skip
    gate = exact.verdict.gate.model_copy(update={"numbers": numbers})
    exact = exact.model_copy(update={"verdict": exact.verdict.model_copy(update={"gate": gate})})
    shared = share(exact, 5, b"", Totals())[0].verdict.gate.numbers
    assert [one.status for one in shared] == ["failed", "passed"]
    failed, passed = (one.model_copy(update={"status": "passed"}) for one in shared)
    assert failed == passed
    assert (failed.limit, failed.compared) == (0.4, 0.4)
    assert failed.gate == f"{exact.checks[0].id}: acc_members <= about 40 % on estimate"


@pytest.mark.parametrize("part", ["1", "1,", "9 ", "1.5 [", "p 1e", "a/", "1e999 ", "1.0e-999 % ", "of 100 9", "e"])
def test_long_and_hostile_numbers_are_no_error(part: str) -> None:
    text = part * (4096 // len(part))
    assert isinstance(CoarseText(5)(text), str)


def test_steps_and_bands_follow_1_2_and_5() -> None:
    assert [ladder(value) for value in (0.0, 0.011, 0.02, 0.3, 7.0)] == [0.0, 0.02, 0.02, 0.5, 10.0]
    assert [str(band(count, 5)) for count in (0, 4, 5, 9, 10, 49, 50, 100, 1999)] == [
        "fewer than 5", "fewer than 5", "5 to 9", "5 to 9", "10 to 19", "20 to 49", "50 to 99", "100 to 199",
        "1,000 to 1,999",
    ]  # fmt: skip
    assert str(band(17, 17)) == "17 to 19"

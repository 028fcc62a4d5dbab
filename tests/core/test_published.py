"""Numbers of papers beside ours."""

from typing import Any

import pytest

from pfl_audit.core.published import beside, labels, read_published, require_checks
from pfl_audit.core.results import Metric, PublishedNumber
from pfl_audit.errors import UsageError
from tests.reports.made import results

ONE: dict[str, Any] = {
    "paper": "Paper",
    "table": "Table 1",
    "row": "gap",
    "check": "a.leak",
    "metric": "ACC gap",
    "value": 9.39,
}


def joined(*metrics: Metric, **number: Any) -> Any:
    made = results()
    first = made.checks[0].model_copy(update={"metrics": [*made.checks[0].metrics, *metrics]})
    parts = {"checks": [first, *made.checks[1:]], "published": [PublishedNumber(**{**ONE, **number})]}
    (found,) = beside(made.model_copy(update=parts))
    return found


def test_a_number_stands_beside_ours_in_the_papers_unit() -> None:
    found = joined(spread=0.5)
    assert found.metric.value == 0.04
    assert found.difference == pytest.approx(4.0 - 9.39)  # our 0.04 is printed as 4 points
    assert (found.printed, found.apart) == ("9.39 ± 0.5", "-5.39")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        ({"check": "b.failed"}, "the check did not run: needs found"),
        ({"check": "z.other"}, "the check was not chosen"),
        ({"metric": "ANLS"}, "the check has no such number"),
        ({"slice": {"s": 5}}, "the check has no such number"),
        ({"metric": "accuracy", "slice": {"model": "target"}}, "several numbers fit: state the slice"),
    ],
)
def test_what_has_no_number_of_ours_says_why(number: dict[str, Any], reason: str) -> None:
    several = [Metric(name="accuracy", value=0.5, format="percent", slice={"s": s, "model": "target"}) for s in (0, 5)]
    found = joined(*several, **number)
    assert (found.metric, found.reason, found.apart) == (None, reason, "")


def test_a_slice_chooses_and_a_part_of_one_is_enough() -> None:
    several = [
        Metric(name="accuracy", value=value, format="percent", slice={"s": s, "model": "target"})
        for s, value in ((0, 0.5), (5, 0.6))
    ]
    assert joined(*several, metric="accuracy", slice={"s": 5}).metric.value == 0.6
    assert joined(*several, metric="accuracy", slice={"s": 0, "model": "target"}).metric.value == 0.5


def test_labels_are_one_line_an_attack() -> None:
    made = results()
    checks = [check.model_copy(update={"as_published": "settings as published: x = 1"}) for check in made.checks[:2]]
    assert labels(made.model_copy(update={"checks": checks})) == ("a: settings as published: x = 1",)
    assert labels(made) == ("a: settings as published: found",)
    assert labels(made.model_copy(update={"checks": made.checks[:2]})) == ()


def test_one_number_of_a_paper_is_given_once_for_each_of_ours() -> None:
    assert len(read_published([ONE, {**ONE, "row": "other"}, {**ONE, "metric": "ANLS"}])) == 3
    with pytest.raises(UsageError, match="published number 2: an earlier one has its place"):
        read_published([ONE, {**ONE, "value": 1.0}])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": "x"}, "'value' is wrong"),
        ({"colour": 1}, "'colour' is wrong"),
        ({"paper": "x" * 400}, "'paper' is wrong"),
        ({"value": float("nan")}, "'value' is wrong"),
        ({"\x1b[2J": 1}, "is wrong"),
    ],
)
def test_a_wrong_number_is_named_by_its_position(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match="published number 2") as caught:
        read_published([ONE, {**ONE, **change}])
    assert message in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_texts_become_one_line_and_checks_have_to_exist() -> None:
    (found,) = read_published([{**ONE, "row": "a\n\x1bb"}])
    assert found.row == "a  b"
    with pytest.raises(UsageError, match="published number 1: there is no check"):
        require_checks([found], ["b"])

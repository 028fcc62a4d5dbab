import re

import pytest

from pfl_audit.core.results import Curve, Series
from pfl_audit.reports.axes import linear, logarithmic
from pfl_audit.reports.captions import in_words, what_to_see
from pfl_audit.reports.charts import BOTTOM, LEFT, RIGHT, TOP, chart_of

KINDS = ("line", "step", "roc", "scatter")


def curve(kind: str, x: list[float], y: list[float], text: str = "one", **parts: list[float]) -> Curve:
    series = Series(name=text, x=x, y=y, **parts)
    return Curve(title=text, kind=kind, x_label=text, y_label=text, series=[series, series])  # type: ignore[arg-type]


def numbers(path: str) -> list[float]:
    return [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", path)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [[], [1.7e308, -1.7e308], [5e-324, 5e-324], [0.0, 1e308], [3.0], [0.0, 0.0]])
def test_any_finite_numbers_are_drawn_inside_of_the_axes(kind: str, values: list[float]) -> None:
    made = chart_of(curve(kind, values, values, low=values, high=values))
    for line in made.lines:
        for path in (line.path, line.band):
            assert re.fullmatch(r"[MLHVhZ0-9 .+e-]*", path)
        assert all(TOP - 1 <= up <= BOTTOM + 1 and LEFT - 1 <= across <= RIGHT + 1 for across, up in line.markers)
    assert in_words(curve(kind, values, values))


@pytest.mark.parametrize("kind", KINDS)
def test_a_drawing_of_many_points_is_small(kind: str) -> None:
    many = [(n * 7919 % 10_000) / 10_000 for n in range(10_000)]
    assert sum(len(line.path) for line in chart_of(curve(kind, many, many)).lines) < 80_000


def test_the_order_of_points_does_not_show() -> None:
    one, other = curve("scatter", [1, 2, 3], [3, 1, 2]), curve("scatter", [3, 1, 2], [2, 3, 1])
    assert chart_of(one).lines == chart_of(other).lines


def test_both_axes_of_a_roc_are_logarithmic() -> None:
    made = chart_of(curve("roc", [0.0, 0.01, 0.1, 1.0], [0.1, 0.1, 0.5, 1.0]))
    assert made.x.log
    assert made.y.log
    assert [label for _, label in made.x.ticks] == ["1 %", "3 %", "10 %", "30 %", "100 %"]
    assert made.lines[-1].reference


@pytest.mark.parametrize(
    ("values", "labels"),
    [([1, 2], ["1", "2"]), ([1, 20], ["0", "5", "10", "15", "20"]), ([3], ["1", "2", "3", "4", "5"])],
)
def test_whole_values_have_whole_ticks(values: list[float], labels: list[str]) -> None:
    assert [label for _, label in linear(values, 0, 100, percent=False).ticks] == labels


def test_other_values_have_ticks_between_whole_numbers() -> None:
    assert "1.6" in [label for _, label in linear([1.0, 1.5, 2.0], 0, 100, percent=False).ticks]


@pytest.mark.parametrize(("label", "ticks"), [("improvement factor", "0.8"), ("share that came back", "80 %")])
def test_only_shares_are_in_per_cent(label: str, ticks: str) -> None:
    line = curve("line", [1.0, 2.0], [0.8, 1.0]).model_copy(update={"y_label": label})
    assert ticks in [text for _, text in chart_of(line).y.ticks]


def test_a_value_lies_where_its_share_of_the_axis_is() -> None:
    axis = linear([0.0, 10.0], 100, 200, percent=False)
    assert axis.at(5.0) == pytest.approx(150)
    assert logarithmic(0.01, 0, 100).at(0.1) == pytest.approx(50)


def test_the_alternative_of_a_chart_carries_its_numbers() -> None:
    roc = Curve(
        title="ROC", kind="roc", x_label="accused", y_label="found",
        series=[Series(name="attack", x=[0.0, 0.01, 0.1, 1.0], y=[0.1, 0.25, 0.5, 1.0])],
    )  # fmt: skip
    assert in_words(roc) == "ROC: found against accused. attack: 25% at 1% false alarms, 50% at 10% false alarms."
    assert "further up and to the left" in what_to_see(roc)

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from pfl_audit.core.results import Curve, Series
from pfl_audit.reports import figures

KINDS = ("line", "step", "roc", "scatter")
TEX = r"$\frac{$ $x$"


def curve(kind: str, x: list[float], y: list[float], text: str = "one", **parts: list[float]) -> Curve:
    series = Series(name=text, x=x, y=y, **parts)
    return Curve(title=text, kind=kind, x_label=text, y_label=text, series=[series, series])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_of_a_drawing_is_a_formula(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    draw = figures._svg
    monkeypatch.setattr(figures, "_svg", lambda figure: (drawn.append(figure), draw(figure))[1])
    svg = figures.draw_curve(curve(kind, [0.002, 0.003, 0.004], [0.1, 0.2, 1e6], TEX * 9))
    texts = drawn[0].findobj(Text)
    assert len(texts) > 10
    assert not any(text.get_parse_math() for text in texts)
    assert r"$\frac{$ $x$" in svg
    assert "mathdefault" not in svg


@pytest.mark.parametrize("kind", KINDS)
def test_a_drawing_of_many_points_is_small(kind: str) -> None:
    many = [(n * 7919 % 10_000) / 10_000 for n in range(10_000)]
    assert len(figures.draw_curve(curve(kind, many, many))) < 400_000


def test_few_values_of_x_have_ticks_and_many_have_some() -> None:
    svg = figures.draw_curve(curve("line", [0, 5, 17], [0.0, 0.5, 1.0]))
    assert ">17<" in svg
    many = figures.draw_curve(curve("line", [float(n) for n in range(1000)], [0.5] * 1000))
    assert many.count('id="xtick_') < 20


def test_the_order_of_points_does_not_show() -> None:
    one, other = curve("scatter", [1, 2, 3], [3, 1, 2]), curve("scatter", [3, 1, 2], [2, 3, 1])
    assert figures.draw_curve(one) == figures.draw_curve(other)


def test_settings_of_the_working_folder_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib

    before = figures.draw_curve(curve("line", [0, 1], [0, 1]))
    with matplotlib.rc_context({"text.usetex": True, "axes.formatter.use_mathtext": True, "font.size": 30}):
        assert figures.draw_curve(curve("line", [0, 1], [0, 1])) == before


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("numbers", [[], [1.7e308, -1.7e308], [5e-324, 5e-324], [0.0, 1e308]])
def test_any_finite_numbers_are_drawn_without_a_word(
    kind: str, numbers: list[float], capfd: pytest.CaptureFixture[str]
) -> None:
    assert "<svg" in figures.draw_curve(curve(kind, numbers, numbers, "\u9f98" * 300, low=numbers, high=numbers))
    assert capfd.readouterr() == ("", "")

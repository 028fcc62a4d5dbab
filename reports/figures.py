"""Figures as SVG text; the same numbers give the same bytes."""

from __future__ import annotations

import io
import logging
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from pfl_audit.core.fields import thinned
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Check, Curve, Metric, Series

logging.getLogger("matplotlib").setLevel(logging.CRITICAL)  # fonts that lack a letter

_COLOURS = ("#1f5fa8", "#c4491d", "#6b7280", "#2f855a")
_MARKERS = ("o", "^", "s", "D")
_LABEL = 34
"""Letters in a line of an axis' label."""
_TITLE = 60
"""Letters in a line of a title."""
_LINES = 3
_POINTS = 2000
"""Points of a line; of more, evenly spaced ones are drawn. A scatter plot of more becomes a bitmap."""
_TICKS = 12
"""Values of x that all get a tick."""
_MARKED = 50
"""Points of a line that all get a marker."""
_MODELS: dict[object, str] = {"target": "model under audit", "documents alone": "documents alone"}
"""Names of models that are no control."""
_ROWS = 40
"""Checks in the overview."""
_LARGEST = 1e30
"""Numbers beyond are drawn as this one: the distance of two axis ends must stay a number."""
_LEAST_SHARE = 1e-6
_STYLE: Any = {
    "text.parse_math": False,  # a name is no formula
    "svg.fonttype": "none",
    "svg.hashsalt": "pfl-audit",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.6,
}


def draw_curve(curve: Curve) -> str:
    """Draw a curve of results.json."""
    with _drawing():
        figure = Figure(figsize=(4.2, 3.1), layout="constrained")
        axes = figure.add_subplot()
        _KINDS[curve.kind](axes, [series for series in curve.series if series.x])
        axes.set_title(_fill(curve.title, _TITLE), fontsize=9, loc="left")
        axes.set_xlabel(_fill(curve.x_label, _LABEL))
        axes.set_ylabel(_fill(curve.y_label, _LABEL))
        if len(axes.get_legend_handles_labels()[0]) > 1:
            axes.legend(frameon=False, fontsize=8)
        return _svg(figure)


def draw_overview(checks: Sequence[Check]) -> str:
    """Balanced accuracy of the first membership attacks with interval, chance, and the control."""
    checks = checks[:_ROWS]
    with _drawing():
        figure = Figure(figsize=(7.6, 0.6 + 0.42 * len(checks)), layout="constrained")
        axes = figure.add_subplot()
        seen: set[str] = set()
        for row, check in enumerate(checks):
            same = _balanced(check)
            for metric in same:
                model = metric.slice.get("model")
                control = model != "target"
                if metric.value is None or metric.ci is None:
                    continue
                at, colour = row + (0.18 if control else -0.12), _COLOURS[2 if control else 0]
                axes.plot(_numbers(metric.ci), (at, at), color=colour, linewidth=2 if not control else 1.2)
                label = _MODELS.get(model, "control")
                shape = {"model under audit": "o", "control": "D"}.get(label, "s")
                axes.plot(
                    _numbers([metric.value]), [at], marker=shape, color=colour, markersize=5, linestyle="none",
                    label=None if label in seen else label,
                )  # fmt: skip
                seen.add(label)
            if same and same[0].chance is not None:
                axes.plot(
                    _numbers([same[0].chance] * 2), (row - 0.38, row + 0.38), color=_COLOURS[1], linestyle=":",
                    label=None if "chance" in seen else "chance",
                )  # fmt: skip
                seen.add("chance")
        axes.set_yticks(range(len(checks)), [visible(check.title, _TITLE) for check in checks])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("balanced accuracy")
        axes.xaxis.set_major_formatter(_per_cent)
        if seen:
            axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        return _svg(figure)


def _balanced(check: Check) -> list[Metric]:
    """Balanced accuracy at the s that the finding rests on: one of each model."""
    s = check.settings.get("decided at s")
    found: dict[object, Metric] = {}
    for metric in check.metrics:
        if metric.name == "balanced accuracy" and metric.slice.get("s") == s:
            found.setdefault(metric.slice.get("model"), metric)
    return list(found.values())


def _line(axes: Axes, every: Sequence[Series]) -> None:
    for series, colour, shape in zip(every, _COLOURS, _MARKERS, strict=False):
        style = ":" if series.name in ("chance", "no better") else "-"
        x = _numbers(series.x)
        marker = shape if len(x) <= _MARKED else ""
        axes.plot(x, _numbers(series.y), style, color=colour, marker=marker, markersize=4, label=_name(series))
        if series.low is not None and series.high is not None:
            axes.fill_between(x, _numbers(series.low), _numbers(series.high), color=colour, alpha=0.15, linewidth=0)
    ticks = sorted({x for series in every for x in _numbers(series.x)})
    if len(ticks) <= _TICKS:
        axes.set_xticks(ticks)
    if all(0 <= y <= 1 for series in every for y in series.y):
        axes.yaxis.set_major_formatter(_per_cent)


def _step(axes: Axes, every: Sequence[Series]) -> None:
    """Over shares: a value holds from the share before up to its own."""
    for series, colour in zip(every, _COLOURS, strict=False):
        x, y = _numbers(series.x), _numbers(series.y)
        axes.step([0.0, *x], [y[0], *y], where="pre", color=colour, label=_name(series))
    axes.set_ylim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(_per_cent)
    axes.yaxis.set_major_formatter(_per_cent)


def _per_cent(value: float, _: float) -> str:
    return f"{100 * value:.0f} %" if abs(value) < _LEAST_SHARE**-1 else f"{value:.0e}"


def _scatter(axes: Axes, every: Sequence[Series]) -> None:
    """In the order of the values, so that a drawing shows nothing of the order in which points were found."""
    bitmap = sum(len(series.x) for series in every) > _POINTS
    for series, colour, marker in zip(every, _COLOURS, _MARKERS, strict=False):
        x, y = zip(*sorted(zip(series.x, series.y, strict=True)), strict=True)
        axes.scatter(
            _numbers(x, len(x)), _numbers(y, len(y)), s=16, alpha=0.65, lw=0, color=colour, marker=marker,
            label=_name(series), rasterized=bitmap,
        )  # fmt: skip


def _roc(axes: Axes, every: Sequence[Series]) -> None:
    """A logarithmic axis: what matters is how many members are found before a non-member is wrongly accused.

    Steps, because an attack reaches a point only at one of its thresholds. Points without a false
    accusation stand on the left edge.
    """
    positive = [x for series in every for x in series.x if x > _LEAST_SHARE]
    left = min([0.01, *positive]) / 1.5
    for series, colour in zip(every, _COLOURS, strict=False):
        x = [max(value, left) for value in _numbers(series.x)]
        axes.step(x, _numbers(series.y), where="post", color=colour, label=_name(series))
    grid = [left * (1 / left) ** (step / 50) for step in range(51)]
    axes.plot(grid, grid, color=_COLOURS[2], linestyle=":", linewidth=1, label="chance")
    axes.set_xscale("log")
    axes.set_xlim(left / 1.05, 1.05)
    axes.set_ylim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(_per_cent)


_KINDS = {"line": _line, "step": _step, "roc": _roc, "scatter": _scatter}


@contextmanager
def _drawing() -> Iterator[None]:
    """Our style alone: a matplotlibrc in the working folder decides nothing, and nothing is printed."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def _fill(text: str, width: int) -> str:
    """Text over a few lines."""
    return textwrap.fill(visible(text), width, max_lines=_LINES, placeholder=" …")


def _name(series: Series) -> str:
    """In the legend; matplotlib leaves out labels that begin with an underscore."""
    return visible(series.name, _TITLE).lstrip("_")


def _numbers(values: Sequence[float], most: int = _POINTS) -> list[float]:
    """Numbers that can be drawn: matplotlib takes the logarithm of distances, which must be neither infinite nor 0."""
    some = (values[place] for place in thinned(len(values), most))
    return [min(max(value, -_LARGEST), _LARGEST) if abs(value) > 1 / _LARGEST else 0.0 for value in some]


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()

"""Pictures, as SVG text: the same numbers give the same bytes."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pfl_audit.audit.results import Check, Curve

_COLOURS = ("#1f5fa8", "#c4491d", "#6b7280", "#2f855a")
_MARKERS = ("o", "^", "s", "D")
_LABEL = 34
"""Letters in a line of an axis' label."""
_STYLE: Any = {
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
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(4.2, 3.1), layout="constrained")
        axes = figure.add_subplot()
        _KINDS[curve.kind](axes, curve)
        axes.set_title(curve.title, fontsize=9, loc="left")
        axes.set_xlabel(textwrap.fill(curve.x_label, _LABEL))
        axes.set_ylabel(textwrap.fill(curve.y_label, _LABEL))
        if len(axes.get_legend_handles_labels()[0]) > 1:
            axes.legend(frameon=False, fontsize=8)
        return _svg(figure)


def draw_overview(checks: Sequence[Check]) -> str:
    """Balanced accuracy of every membership attack with its interval, chance, and the pre-trained model as control."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(7.6, 0.6 + 0.42 * len(checks)), layout="constrained")
        axes = figure.add_subplot()
        seen: set[str] = set()
        for row, check in enumerate(checks):
            s = check.finding.slice.get("s") if check.finding else None
            same = [
                metric for metric in check.metrics if metric.name == "balanced accuracy" and metric.slice.get("s") == s
            ]
            for metric in same:
                control = metric.slice.get("model") == "pre-trained"
                label = "pre-trained model (control)" if control else "model under audit"
                if metric.value is None or metric.ci is None:
                    continue
                at, colour = row + (0.18 if control else -0.12), _COLOURS[2 if control else 0]
                axes.plot(metric.ci, (at, at), color=colour, linewidth=2 if not control else 1.2)
                axes.plot(
                    [metric.value], [at], marker="o" if not control else "D", color=colour, markersize=5,
                    linestyle="none", label=None if label in seen else label,
                )  # fmt: skip
                seen.add(label)
            if same and same[0].chance is not None:
                label = "chance"
                axes.plot(
                    [same[0].chance] * 2, (row - 0.38, row + 0.38), color=_COLOURS[1], linestyle=":",
                    label=None if label in seen else label,
                )  # fmt: skip
                seen.add(label)
        axes.set_yticks(range(len(checks)), [check.title for check in checks])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("balanced accuracy")
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        if seen:
            axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        return _svg(figure)


def _line(axes: Axes, curve: Curve) -> None:
    for series, colour, marker in zip(curve.series, _COLOURS, _MARKERS, strict=False):
        style = ":" if series["name"] in ("chance", "no better") else "-"
        axes.plot(
            series["x"], series["y"], style, color=colour, marker=marker, markersize=4, label=series["name"]
        )  # fmt: skip
        if "low" in series:
            axes.fill_between(series["x"], series["low"], series["high"], color=colour, alpha=0.15, linewidth=0)
    axes.set_xticks(sorted({x for series in curve.series for x in series["x"]}))
    if all(0 <= y <= 1 for series in curve.series for y in series["y"]):
        axes.yaxis.set_major_formatter(_per_cent)


def _step(axes: Axes, curve: Curve) -> None:
    """Over shares: a value holds from the share before up to its own."""
    for series, colour in zip(curve.series, _COLOURS, strict=False):
        x, y = [0.0, *series["x"]], [series["y"][0], *series["y"]]
        axes.step(x, y, where="pre", color=colour, label=series["name"])
    axes.set_ylim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(_per_cent)
    axes.yaxis.set_major_formatter(_per_cent)


def _per_cent(value: float, _: float) -> str:
    return f"{100 * value:.0f} %"


def _scatter(axes: Axes, curve: Curve) -> None:
    for series, colour, marker in zip(curve.series, _COLOURS, _MARKERS, strict=False):
        axes.scatter(
            series["x"], series["y"], s=16, alpha=0.65, lw=0, color=colour, marker=marker, label=series["name"]
        )  # fmt: skip


def _roc(axes: Axes, curve: Curve) -> None:
    """A logarithmic axis: what matters is how many members are found before anybody is wrongly accused.

    Steps, because an attack reaches a point only at one of its thresholds. Points without a false
    accusation stand on the left edge.
    """
    positive = [x for series in curve.series for x in series["x"] if x > 0]
    left = min([0.01, *positive]) / 1.5
    for series, colour in zip(curve.series, _COLOURS, strict=False):
        x = [max(value, left) for value in series["x"]]
        axes.step(x, series["y"], where="post", color=colour, label=series["name"])
    grid = [left * (1 / left) ** (step / 50) for step in range(51)]
    axes.plot(grid, grid, color=_COLOURS[2], linestyle=":", linewidth=1, label="chance")
    axes.set_xscale("log")
    axes.set_xlim(left / 1.05, 1.05)
    axes.set_ylim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")


_KINDS = {"line": _line, "step": _step, "roc": _roc, "scatter": _scatter}


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()

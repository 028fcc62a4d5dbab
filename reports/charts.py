"""Curves of results.json as geometry: a template draws them as SVG, in the colours of the page.

Drawing with a plotting library takes a fifth of a second a curve, and its pictures have neither a dark mode nor text
that a screen reader finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pfl_audit.core import limits
from pfl_audit.core.fields import thinned
from pfl_audit.core.results import Curve, Series
from pfl_audit.reports.axes import Axis, linear, logarithmic

WIDTH: Final = 440
HEIGHT: Final = 290
LEFT: Final = 54
TOP: Final = 12
RIGHT: Final = 416
BOTTOM: Final = 244
MARKED: Final = 12
"""Points of a line that all get a marker."""
CALLED: Final = 4
"""Points of a curve of an attack that gives calls and no scores, with both ends."""
REFERENCES: Final = ("chance", "no better")
"""Names of series that are drawn dotted, as what chance gives."""
_SHARES: Final = ("share", "accuracy")
"""Beginnings of labels of an axis in per cent; a factor or a similarity from 0 to 1 is none."""
_NO_BAND: Final = 2
"""Numbers of a point without an interval."""
_LEAST_SHARE: Final = 1e-6
_LARGEST: Final = 1e30
"""Numbers beyond are drawn as this one: the distance of two axis ends must stay a number."""


@dataclass(frozen=True)
class Line:
    """A series.

    Attributes:
        name: Name in the legend.
        path: SVG path, or empty where there is no point.
        band: SVG path of the intervals, or empty.
        dots: Whether the path is drawn as dots.
        markers: Points that get a marker, in the coordinates of the drawing.
        reference: Whether it is what chance gives.
    """

    name: str
    path: str
    band: str = ""
    dots: bool = False
    markers: tuple[tuple[float, float], ...] = ()
    reference: bool = False


@dataclass(frozen=True)
class Chart:
    """A drawing of WIDTH x HEIGHT units."""

    curve: Curve
    x: Axis
    y: Axis
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class _Drawn:
    """The points of a series that are drawn, as (x, y, low, high)."""

    name: str
    points: tuple[tuple[float, ...], ...]


def chart_of(curve: Curve) -> Chart:
    """The drawing of a curve."""
    series = [_drawn(one, curve.kind) for one in curve.series if one.x]
    xs = [point[0] for one in series for point in one.points]
    ys = [value for one in series for point in one.points for value in point[1:]]
    if curve.kind == "roc":
        least = min([0.01, *(value for value in (*xs, *ys) if value > _LEAST_SHARE)]) / 1.5
        x, y = logarithmic(least, LEFT, RIGHT), logarithmic(least, BOTTOM, TOP)
        guess = Line("chance", _path([(x.at(least), y.at(least)), (x.at(1.0), y.at(1.0))]), reference=True)
        return Chart(curve, x, y, (*(_line(one, x, y, curve.kind) for one in series), guess))
    shares = curve.kind == "step"
    x = linear([0.0, 1.0] if shares else xs, LEFT, RIGHT, percent=shares)
    percent = shares or (curve.y_label.startswith(_SHARES) and all(0 <= value <= 1 for value in ys))
    y = linear([0.0, 1.0] if shares else ys, BOTTOM, TOP, percent=percent)
    return Chart(curve, x, y, tuple(_line(one, x, y, curve.kind) for one in series))


def _drawn(series: Series, kind: str) -> _Drawn:
    columns = [series.x, series.y, *(part for part in (series.low, series.high) if part is not None)]
    kept = thinned(len(series.x), limits.SCATTERED if kind == "scatter" else limits.DRAWN)
    points = [tuple(_bounded(column[place]) for column in columns) for place in kept]
    # Sorted, so that a drawing shows nothing of the order in which points were found.
    return _Drawn(series.name, tuple(sorted(points) if kind == "scatter" else points))


def _line(series: _Drawn, x: Axis, y: Axis, kind: str) -> Line:
    points = [_at(point[0], point[1], x, y) for point in series.points]
    if kind == "scatter":
        return Line(series.name, "".join(f"M{across:g} {up:g}h0" for across, up in points), dots=True)
    band = ""
    if len(series.points[0]) > _NO_BAND:
        lower = [_at(point[0], point[2], x, y) for point in series.points]
        upper = [_at(point[0], point[3], x, y) for point in series.points]
        band = _path([*lower, *reversed(upper)]) + "Z"
    if kind == "roc":
        path = _steps(points, first_across=True)
    elif kind == "step":
        path = _steps([(x.at(0.0), points[0][1]), *points], first_across=False)
    else:
        path = _path(points)
    reference = series.name in REFERENCES
    markers = () if reference else _markers(points, kind)
    return Line(series.name, path, band, markers=markers, reference=reference)


def _markers(points: Sequence[tuple[float, float]], kind: str) -> tuple[tuple[float, float], ...]:
    """Points of a short line, and of an attack that only calls: its curve is nothing but this point."""
    if kind == "line" and len(points) <= MARKED:
        return tuple(points)
    return tuple(points[1:-1]) if kind == "roc" and len(points) <= CALLED else ()


def _at(across: float, up: float, x: Axis, y: Axis) -> tuple[float, float]:
    return round(x.at(across), 1), round(y.at(up), 1)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{across:g} {up:g}" for across, up in points)


def _steps(points: Sequence[tuple[float, float]], *, first_across: bool) -> str:
    """Steps between points: an attack reaches a point only at one of its thresholds."""
    path = f"M{points[0][0]:g} {points[0][1]:g}"
    for across, up in points[1:]:
        path += f"H{across:g}V{up:g}" if first_across else f"V{up:g}H{across:g}"
    return path


def _bounded(value: float) -> float:
    return min(max(value, -_LARGEST), _LARGEST)

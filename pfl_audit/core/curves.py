"""Curves of ``results.json``; of our own, the points are kept that a drawing shows."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Final, Literal, Self

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

from pfl_audit.core import limits
from pfl_audit.core.fields import Finite, Name, Part, few, is_read, thinned
from pfl_audit.metrics.arrays import Floats

Numbers = Annotated[list[Finite], few(limits.POINTS)]
_LEAST: Final = 1e-6
"""Shares below are at the end of a logarithmic axis."""
_DIGITS: Final = 6
"""Significant digits of a point of a thinned curve."""


class Series(Part):
    """Points of a curve."""

    name: Name = Field(description="Name in the legend")
    x: Numbers = Field(description="Horizontal coordinates")
    y: Numbers = Field(description="Vertical coordinates")
    low: Numbers | None = Field(default=None, description="Lower ends of the intervals of `y`")
    high: Numbers | None = Field(default=None, description="Upper ends of the intervals of `y`")

    @model_validator(mode="before")
    @classmethod
    def _own_fits(cls, parts: object, info: ValidationInfo[object]) -> object:
        if is_read(info) or not isinstance(parts, dict):
            return parts
        names = [name for name in ("x", "y", "low", "high") if parts.get(name) is not None]
        points = [point for point in zip(*(parts[name] for name in names), strict=True) if all(map(isfinite, point))]
        kept = [points[place] for place in thinned(len(points), limits.POINTS)]
        return {**parts, **{name: [point[place] for point in kept] for place, name in enumerate(names)}}

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ValueError("'low' and 'high' belong together")
        if len({len(numbers) for numbers in (self.x, self.y, self.low, self.high) if numbers is not None}) > 1:
            raise ValueError("'x', 'y', 'low' and 'high' differ in length")
        return self

    @property
    def numbers(self) -> int:
        """How many coordinates it holds."""
        return sum(len(part) for part in (self.x, self.y, self.low, self.high) if part is not None)

    def thinned(self, most: int, kind: str) -> Series:
        """The series with at most ``most`` points of those that are drawn (``core/points.py``)."""
        if len(self.x) <= most:
            return self
        evenly = kind == "scatter"
        places = [*thinned(len(self.x), most)] if evenly else shown_places(self.x, self.y, most, log=kind == "roc")
        columns = {name: getattr(self, name) for name in ("x", "y", "low", "high")}
        kept = {name: [rounded(part[at]) for at in places] for name, part in columns.items() if part is not None}
        return self.model_copy(update=kept)


class Curve(Part):
    """A figure of one or more series."""

    title: Name = Field(description="Title of the figure")
    kind: Literal["roc", "line", "step", "scatter"] = Field(description="How it is drawn")
    x_label: Name = Field(description="Label of the horizontal axis")
    y_label: Name = Field(description="Label of the vertical axis")
    series: Annotated[list[Series], few(limits.SERIES)] = Field(description="Its curves")

    @field_validator("series")
    @classmethod
    def _own_are_drawn(cls, series: list[Series], info: ValidationInfo[object]) -> list[Series]:
        kind = info.data.get("kind", "")
        most = limits.SCATTERED if kind == "scatter" else limits.DRAWN
        return series if is_read(info) else [one.thinned(most, kind) for one in series]

    def thinned(self, most: int) -> Curve:
        """The figure with at most ``most`` points a series."""
        return self.model_copy(update={"series": [one.thinned(most, self.kind) for one in self.series]})


def shown_places(x: Sequence[float], y: Sequence[float], most: int, *, log: bool) -> list[int]:
    """Places of at most ``most`` points, evenly along the line as it is drawn, the first and the last among them.

    A point that is left out lies within a step of one that is kept: 1 / (``most`` - 2) of the length of the line, in
    units of the axes. A line that only rises or falls is two such units long at most, and so the step of 250 points is
    0.8 % of an axis.

    Args:
        x: Finite.
        y: Finite, of the same length.
        most: Three at least.
        log: Whether both axes are logarithmic.
    """
    if len(x) <= most:
        return list(range(len(x)))
    steps = sum(np.abs(np.diff(_drawn(np.array(part, dtype=np.float64), log=log))) for part in (x, y))
    along = np.append(0.0, np.cumsum(steps))
    cells = np.floor(along / max(along[-1], _LEAST) * (most - 2))
    first = np.flatnonzero(np.diff(cells[:-1], prepend=-1.0))
    return [*map(int, first), len(x) - 1]


def rounded(value: float) -> float:
    """A coordinate with as many digits as a drawing needs."""
    return float(f"{value:.{_DIGITS}g}")


def _drawn(values: Floats, *, log: bool) -> Floats:
    """Shares of the axis, 0 to 1."""
    if log:
        values = np.log(np.maximum(values, min(0.01, values[values > _LEAST].min(initial=0.01)) / 1.5))
    values = values / max(1.0, float(np.abs(values).max()))  # so that no difference is beyond a float
    return (values - values.min()) / max(float(np.ptp(values)), float(np.finfo(np.float64).tiny))

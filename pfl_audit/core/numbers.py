"""Metrics as text, in the terminal and in reports: each is printed in the format that it carries."""

from __future__ import annotations

import math
from typing import Final

from pfl_audit.core.schema import Check, Format, Metric

_FORMATS: Final[dict[Format, tuple[float, str, str]]] = {
    "percent": (100.0, ".1f", " %"),
    "points": (100.0, "+.1f", " points"),
    "decimal": (1.0, ".3f", ""),
    "integer": (1.0, ".0f", ""),
    "decibel": (1.0, ".1f", " dB"),
    "bits": (1.0, "+.2f", " bits"),
}
"""Factor, format specification and unit."""
_HUGE = 1e9
"""Values from here on are printed with a power of ten."""


def headline(check: Check) -> Metric | None:
    """The number that a check's finding rests on."""
    if check.finding is None:
        return None
    wanted = (check.finding.metric, check.finding.slice)
    return next((metric for metric in check.metrics if (metric.name, metric.slice) == wanted), None)


def number(metric: Metric) -> str:
    """A metric's value, said to be near or a bound where it is rounded; a dash where there is none."""
    if metric.value is None:
        return "–"
    near = metric.bound or ("about" if metric.step is not None else "")
    return f"{near} {in_format(metric.value, metric.format, step=metric.step)}".strip()


def interval(metric: Metric) -> str:
    """A metric's interval in brackets, or nothing."""
    if metric.ci is None:
        return ""
    low, high = (in_format(end, metric.format, bare=True, step=metric.step) for end in metric.ci)
    return f"[{low}, {high}]"


def chance(metric: Metric) -> str:
    """What chance would give, or nothing."""
    return "" if metric.chance is None else in_format(metric.chance, metric.format)


def in_print(value: float, format: Format) -> float:  # noqa: A002 - the field of the schema
    """A value in the unit in which it is printed, such as 56.1 for a share of 0.561."""
    return value * _FORMATS[format][0] if format in _FORMATS else value


def in_format(value: float, format: Format, *, bare: bool = False, step: float | None = None) -> str:  # noqa: A002
    """A value in the format of its metric.

    Args:
        value: In the scale of results.json.
        format: Format of the metric.
        bare: Without the unit.
        step: Step that the value is rounded to, which limits its decimals; None where it is exact.
    """
    if abs(value) >= _HUGE:
        return f"{value:.3g}"
    if format == "number":
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    factor, specification, unit = _FORMATS[format]
    if step:
        specification = f"{specification[:-2].rstrip('.')}.{decimals(factor * step)}f"
    return f"{factor * value:{specification}}{'' if bare else unit}"


def decimals(step: float) -> int:
    """Decimals that a multiple of a step above 0 needs, where the step is 1, 2 or 5 times a power of ten."""
    return max(0, -math.floor(math.log10(step) + 1e-9))

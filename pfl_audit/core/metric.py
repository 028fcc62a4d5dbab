"""The one builder of metrics: an estimate with its interval and all that is needed to judge it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import TypedDict

from pfl_audit.core.results import Format, Metric, Role, SliceValue
from pfl_audit.metrics.intervals import LEVEL, Estimate


def bootstrap_over(unit: str, *, exact: bool = False) -> str:
    """Name of the method of an interval.

    Args:
        unit: What is resampled as a whole, such as ``providers``.
        exact: Whether shares of none and of all have the exact interval instead.
    """
    return f"percentile bootstrap over {unit}" + (", exact where all or none are right" if exact else "")


class Resampled(TypedDict):
    """Unit of a metric, and method of its interval."""

    unit: str
    method: str


def resampled_over(unit: str) -> Resampled:
    """Arguments of ``build_metric`` for a percentile bootstrap over a unit, in the plural."""
    return {"unit": unit, "method": bootstrap_over(unit)}


def build_metric(
    name: str,
    found: Estimate | float | None,
    *,
    format: Format = "number",  # noqa: A002 - the field of the schema
    n: int | None = None,
    unit: str = "providers",
    method: str = bootstrap_over("providers"),
    chance: float | None = None,
    about: Mapping[str, SliceValue] | None = None,
    role: Role | None = None,
    seeds: int | None = None,
    std: float | None = None,
    note: str | None = None,
    missing: str | None = None,
    items: Iterable[tuple[str, str]] = (),
) -> Metric:
    """Make a metric.

    A value that is not finite becomes None. The interval is left out, with its level and method, unless both ends are
    finite.

    Args:
        name: Name of the metric; with the slice unique in its check.
        found: Value with its interval, a value alone, or None where it cannot be computed.
        format: How the value and its interval are printed.
        n: Number of units behind the value.
        unit: Unit of ``n``, in the plural.
        method: How the interval was found.
        chance: Value that an attacker without the model would reach.
        about: Slice of the data, and model, that the value belongs to.
        role: What the value is used for beside its check.
        seeds: Number of seeds behind the value.
        std: Standard deviation over the seeds.
        note: Explanation that is printed below the value.
        missing: Note in place of ``note`` where there is no value.
        items: What the number is about, such as questions, each with its unit of privacy; a masked report publishes
            no number that concerns few units, by itself or by its difference to others.
    """
    value = found.value if isinstance(found, Estimate) else found
    known = value is not None and isfinite(value)
    bounds = (found.low, found.high) if isinstance(found, Estimate) and known else None
    bounded = bounds is not None and isfinite(bounds[0]) and isfinite(bounds[1])
    made = Metric(
        name=name,
        value=value if known else None,
        ci=bounds if bounded else None,
        level=LEVEL if bounded else None,
        method=method if bounded else None,
        n=n,
        unit=unit,
        format=format,
        role=role,
        chance=chance,
        seeds=seeds,
        std=std,
        slice=dict(about or {}),
        note=note if known or missing is None else missing,
    )
    samples = found.samples if isinstance(found, Estimate) and bounded else made.resamples
    return made.with_behind(samples, items)

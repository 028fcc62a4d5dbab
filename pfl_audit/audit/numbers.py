"""Metrics as people read them, in the terminal and in reports: shares as per cent, gaps as points."""

from __future__ import annotations

from pfl_audit.audit.results import Check, Metric


def headline(check: Check) -> Metric | None:
    """The number that a check's finding rests on."""
    if check.finding is None:
        return None
    wanted = (check.finding.metric, check.finding.slice)
    return next((metric for metric in check.metrics if (metric.name, metric.slice) == wanted), None)


def number(metric: Metric) -> str:
    """A metric's value; a dash where there is none."""
    return "–" if metric.value is None else in_form(metric, metric.value)


def interval(metric: Metric) -> str:
    """A metric's interval in brackets, or nothing."""
    if metric.ci is None:
        return ""
    low, high = (in_form(metric, end, bare=True) for end in metric.ci)
    return f"[{low}, {high}]"


def chance(metric: Metric) -> str:
    """What chance would give, or nothing."""
    return "" if metric.chance is None else in_form(metric, metric.chance)


def in_form(metric: Metric, value: float, *, bare: bool = False) -> str:
    """A value in the form of its metric, ``bare`` without the unit."""
    if metric.name.endswith("disclosed"):
        return f"{value:.0f}"
    if metric.name.endswith("gap"):
        return f"{100 * value:+.1f}" if bare else f"{100 * value:+.1f} points"
    if metric.name == "AUC":
        return f"{value:.3f}"
    return f"{100 * value:.1f}" if bare else f"{100 * value:.1f} %"

"""Metrics as people read them, in the terminal and in reports: shares as per cent, gaps as points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from pfl_audit.core.results import Check, Metric, Results

_LEVEL = 0.95
_PLAIN = ("AUC", "AccAUC", "HamAAC", "improvement factor", "Hamming", "Levenshtein", "Jaro-Winkler",
          "fuzz ratio", "cosine distance")  # fmt: skip
"""Beginnings of the names of metrics that are no shares."""
_HUGE = 1e9
"""What is as large, which no share or count is, is printed with a power of ten."""


def headline(check: Check) -> Metric | None:
    """The number that a check's finding rests on."""
    if check.finding is None:
        return None
    wanted = (check.finding.metric, check.finding.slice)
    return next((metric for metric in check.metrics if (metric.name, metric.slice) == wanted), None)


@dataclass(frozen=True)
class Measured:
    """A balanced accuracy that was picked as the surest of several.

    Attributes:
        check: It is from.
        metric: The number, with its own interval.
        low: Lower end of the interval once the choice is allowed for (Bonferroni; widened as a normal one).
    """

    check: Check
    metric: Metric
    low: float


def surest_membership(checks: Sequence[Check]) -> Measured | None:
    """The membership attack on the model under audit whose interval begins highest; None where there is none."""
    found = [
        (metric.ci[0], metric.value, check, metric)
        for check in checks
        for metric in check.metrics
        if metric.name == "balanced accuracy"
        and metric.slice.get("model", "target") == "target"
        and metric.ci is not None
        and metric.value is not None
    ]
    if not found:
        return None
    low, value, check, metric = max(found, key=lambda item: item[0])
    tail = (1 - (metric.level or _LEVEL)) / 2
    wider = NormalDist().inv_cdf(1 - tail / len(found)) / NormalDist().inv_cdf(1 - tail)
    return Measured(check, metric, value - wider * (value - low))


def contradicts_claim(results: Results) -> bool:
    """Whether an attack was more accurate than the claimed (epsilon, delta) allows any attack to be."""
    review = results.target.claim_review
    measured = surest_membership(results.checks)
    return (
        review is not None
        and review.claimed_accuracy is not None
        and measured is not None
        and measured.low > review.claimed_accuracy
    )


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
    if abs(value) >= _HUGE:
        return f"{value:.3g}"
    if metric.name.endswith("disclosed"):
        return f"{value:.0f}"
    if metric.name.startswith("exposure"):
        return f"{value:+.2f}" if bare else f"{value:+.2f} bits"
    if metric.name.endswith("gap"):
        return f"{100 * value:+.1f}" if bare else f"{100 * value:+.1f} points"
    if metric.name.startswith("PSNR"):
        return f"{value:.1f}" if bare else f"{value:.1f} dB"
    if metric.name.startswith("MSE"):
        return f"{value:.0f}"
    if metric.name.startswith(_PLAIN):
        return f"{value:.3f}"
    return f"{100 * value:.1f}" if bare else f"{100 * value:.1f} %"

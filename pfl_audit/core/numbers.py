"""Metrics as text, in the terminal and in reports: each is printed in the format that it carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from pfl_audit.core.results import Check, Data, Format, Metric, Results

_LEVEL = 0.95
_FORMATS: Final[dict[Format, tuple[float, str, str]]] = {
    "percent": (100.0, ".1f", " %"),
    "points": (100.0, "+.1f", " points"),
    "decimal": (1.0, ".3f", ""),
    "integer": (1.0, ".0f", ""),
    "decibel": (1.0, ".1f", " dB"),
    "bits": (1.0, "+.2f", " bits"),
}
"""Factor, format specification and unit."""
_MOST_GUESSES = 1 << 20
"""Of a results.json, which may be from elsewhere; the bounds take time and memory for each."""
_HUGE = 1e9
"""Values from here on are printed with a power of ten."""


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
        low: Lower end of the interval once the choice is allowed for (Bonferroni; widened as a normal one).
        error: Probability of an error that each of the metrics is allowed, so that they hold together.
    """

    check: Check
    metric: Metric
    low: float
    error: float


def surest_bounded(checks: Sequence[Check]) -> Measured | None:
    """The balanced accuracy with role ``bounded`` whose interval begins highest; None where there is none."""
    found = [
        (metric.ci[0], metric.value, check, metric)
        for check in checks
        for metric in check.metrics
        if metric.role == "bounded" and metric.ci is not None and metric.value is not None
    ]
    if not found:
        return None
    low, value, check, metric = max(found, key=lambda item: item[0])
    tail = (1 - (metric.level or _LEVEL)) / 2
    wider = NormalDist().inv_cdf(1 - tail / len(found)) / NormalDist().inv_cdf(1 - tail)
    return Measured(check, metric, value - wider * (value - low), 2 * tail / len(found))


def contradicts_guarantee(results: Results) -> bool:
    """Whether an attack was more accurate than the stated guarantee allows any attack on drawn classes to be.

    Guesses of one run depend on each other, so the bound of their number is one for dependent guesses: that of
    Mahloujifar, Melis and Chaudhuri 2024 for the trade-off curve of the stated mechanism, or where the mechanism does
    not support the stated epsilon that of Steinke, Nasr and Jagielski 2023, theorem 5.2, for (epsilon, delta). A
    perfect attack on a few providers contradicts no large epsilon. A balanced accuracy counts for as many guesses as
    two classes of the size of the smaller have. Classes that were not drawn may differ in their documents, and
    contradict nothing.
    """
    review, measured = results.target.claim_review, surest_bounded(results.checks)
    if review is None or review.claim is None or measured is None or not exceeds_guarantee(results):
        return False
    value, providers = measured.metric.value, _balanced(measured, results.datasets)
    if (
        not value
        or not providers
        or providers > _MOST_GUESSES
        or not any(data.classes_random for data in results.datasets)
    ):
        return False
    # Late, since hardly an audit needs them, and they import most of scipy.
    from pfl_audit.privacy.lower_bounds import Guesses, contradicts, p_value
    from pfl_audit.privacy.pld import SampledGaussian

    claim = review.claim
    guesses = Guesses(providers, providers, min(providers, int(value * providers)))
    if review.largest_accuracy is None or review.worth == "weaker":
        return p_value(guesses, claim.epsilon, claim.delta) <= measured.error
    mechanism = SampledGaussian(claim.sampled(), claim.noise_multiplier, claim.sampling.kind)
    return contradicts(mechanism.trade_off, guesses, measured.error)


def _balanced(measured: Measured, datasets: Sequence[Data]) -> int:
    """Providers of two classes of the size of the smaller, which bounds how sure a balanced accuracy is."""
    data = next((one for one in datasets if one.subject == measured.check.subject), None)
    providers = measured.metric.n or 0
    if data is None or not data.members + data.non_members:
        return providers
    return 2 * (providers * min(data.members, data.non_members) // (data.members + data.non_members))


def exceeds_guarantee(results: Results, *, choice: bool = True) -> bool:
    """Whether an attack was more accurate than the stated guarantee or its mechanism allows, if classes are alike.

    Args:
        results: Results of the audit.
        choice: Whether the interval is widened for the choice of the best attack.
    """
    review, measured = results.target.claim_review, surest_bounded(results.checks)
    if review is None or measured is None or measured.metric.ci is None:
        return False
    allowed = [most for most in (review.claimed_accuracy, review.largest_accuracy) if most is not None]
    return bool(allowed) and (measured.low if choice else measured.metric.ci[0]) > min(allowed)


def number(metric: Metric) -> str:
    """A metric's value; a dash where there is none."""
    return "–" if metric.value is None else in_format(metric.value, metric.format)


def interval(metric: Metric) -> str:
    """A metric's interval in brackets, or nothing."""
    if metric.ci is None:
        return ""
    low, high = (in_format(end, metric.format, bare=True) for end in metric.ci)
    return f"[{low}, {high}]"


def chance(metric: Metric) -> str:
    """What chance would give, or nothing."""
    return "" if metric.chance is None else in_format(metric.chance, metric.format)


def in_print(value: float, format: Format) -> float:  # noqa: A002 - the field of the schema
    """A value in the unit in which it is printed, such as 56.1 for a share of 0.561."""
    return value * _FORMATS[format][0] if format in _FORMATS else value


def in_format(value: float, format: Format, *, bare: bool = False) -> str:  # noqa: A002 - the field of the schema
    """A value in the format of its metric, ``bare`` without the unit."""
    if abs(value) >= _HUGE:
        return f"{value:.3g}"
    if format == "number":
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    factor, specification, unit = _FORMATS[format]
    return f"{factor * value:{specification}}{'' if bare else unit}"

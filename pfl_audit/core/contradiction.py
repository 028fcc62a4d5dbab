"""Whether an attack was more accurate than the stated privacy guarantee allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from pfl_audit.core.results import Check, Data, Metric, Results

_LEVEL = 0.95
_MOST_GUESSES = 1 << 20
"""Of a results.json, which may be from elsewhere; the bounds take time and memory for each."""


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
    contradict nothing; nor do classes of whole groups, of which one unit is no draw of its own.
    """
    review, measured = results.target.claim_review, surest_bounded(results.checks)
    if review is None or review.claim is None or measured is None or not exceeds_guarantee(results):
        return False
    value, providers = measured.metric.value, _balanced(measured, results.datasets)
    if (
        not value
        or not providers
        or providers > _MOST_GUESSES
        or not any(data.classes_random and not data.groups_random for data in results.datasets)
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

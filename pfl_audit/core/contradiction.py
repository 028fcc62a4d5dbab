"""Worth of a stated privacy guarantee once it is held against what attacks measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from pfl_audit.core.schema import Check, Data, Metric
from pfl_audit.privacy.guarantee import GuaranteeReview, PrivacyGuarantee, Worth
from pfl_audit.privacy.units import unit_words

_LEVEL = 0.95
_MOST_GUESSES = 1 << 20
"""Of a results.json, which may be from elsewhere; the bounds take time and memory for each."""
_OTHERS: Final = "it bounds no attack on"
_MEASURED: Final[dict[Worth, str]] = {
    "in doubt": "the best attack exceeds what it allows, but not once its choice is counted",
    "unexplained": "more was measured than it allows",
    "contradicted": "contradicted by what was measured",
}
"""Worth of a guarantee that measurements speak against, to the sentence about it."""


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


def surest_bounded(checks: Sequence[Check], unit: str) -> Measured | None:
    """The balanced accuracy with role ``bounded`` whose interval begins highest; None where there is none.

    Args:
        unit: Unit of the guarantee: an attack on another one is not bounded by it.
    """
    found = [
        (metric.ci[0], metric.value, check, metric)
        for check in checks
        for metric in check.metrics
        if metric.role == "bounded" and metric.unit == f"{unit.casefold()}s"
        if metric.ci is not None and metric.value is not None
    ]
    if not found:
        return None
    low, value, check, metric = max(found, key=lambda item: item[0])
    tail = (1 - (metric.level or _LEVEL)) / 2
    wider = NormalDist().inv_cdf(1 - tail / len(found)) / NormalDist().inv_cdf(1 - tail)
    return Measured(check, metric, value - wider * (value - low), 2 * tail / len(found))


def held_against(
    review: GuaranteeReview | None, checks: Sequence[Check], datasets: Sequence[Data]
) -> GuaranteeReview | None:
    """Return the review of a guarantee whose worth and text count what the attacks of the audit measured.

    Every reader, from the first page to a gate, takes the worth from here: results.json holds it.

    Args:
        review: Review by accounting alone; one that attacks have changed already is returned as it is.
        checks: All of the audit.
        datasets: What the audit asked about.
    """
    if review is None or review.claim is None or review.worth in _MEASURED:
        return review
    worth = _measured_worth(review, review.claim, checks, datasets)
    if worth is None:
        aside = _other_units(review.claim.unit, checks)
        new = aside and aside not in review.text  # an audit that is read again has it already
        return review.model_copy(update={"text": f"{review.text}; {aside}"}) if new else review
    return review.model_copy(update={"worth": worth, "text": f"{review.text}; {_MEASURED[worth]}"})


def _other_units(unit: str, checks: Sequence[Check]) -> str:
    """A clause on attacks on units of which one has several of a guarantee's, which it does not bound; or empty."""
    measured = {metric.unit for check in checks for metric in check.metrics if metric.role == "bounded"}
    others = sorted(measured - {f"{unit.casefold()}s"})
    return f"{_OTHERS} {' and '.join(others)}" if others and unit_words(unit).coarser else ""


def _measured_worth(
    review: GuaranteeReview, claim: PrivacyGuarantee, checks: Sequence[Check], datasets: Sequence[Data]
) -> Worth | None:
    """Worth by what was measured; None where that speaks not against the guarantee."""
    canaries = (one for one in checks if any(metric.role == "epsilon" for metric in one.metrics))
    if any(one.finding is not None and one.finding.level == "leak" for one in canaries):
        return "contradicted"
    measured = surest_bounded(checks, claim.unit)
    if measured is None or measured.metric.ci is None or measured.metric.ci[0] <= most_allowed(review):
        return None
    if measured.low <= most_allowed(review):
        return "in doubt"
    return "contradicted" if _contradicts(review, claim, measured, datasets) else "unexplained"


def most_allowed(review: GuaranteeReview) -> float:
    """Largest balanced accuracy that the stated guarantee and its mechanism allow, if the classes are alike."""
    return min((one for one in (review.claimed_accuracy, review.largest_accuracy) if one is not None), default=1.0)


def _contradicts(
    review: GuaranteeReview, claim: PrivacyGuarantee, measured: Measured, datasets: Sequence[Data]
) -> bool:
    """Whether an attack was more accurate than the stated guarantee allows any attack on drawn classes to be.

    Guesses of one run depend on each other, so the bound of their number is one for dependent guesses: that of
    Mahloujifar, Melis and Chaudhuri 2024 for the trade-off curve of the stated mechanism, or where the mechanism does
    not support the stated epsilon that of Steinke, Nasr and Jagielski 2023, theorem 5.2, for (epsilon, delta). A
    perfect attack on a few providers contradicts no large epsilon. A balanced accuracy counts for as many guesses as
    two classes of the size of the smaller have. Classes that were not drawn may differ in their documents, and
    contradict nothing; nor do classes of whole groups, of which one unit is no draw of its own.
    """
    value, providers = measured.metric.value, _balanced(measured, datasets)
    drawn = any(data.classes_random and not data.groups_random for data in datasets)
    if not value or not providers or providers > _MOST_GUESSES or not drawn:
        return False
    # Late, since hardly an audit needs them, and they import most of scipy.
    from pfl_audit.privacy.lower_bounds import Guesses, contradicts, p_value
    from pfl_audit.privacy.pld import SampledGaussian

    guesses = Guesses(providers, providers, min(providers, int(value * providers)))
    if review.largest_accuracy is None or review.worth == "weaker":
        return p_value(guesses, claim.epsilon, claim.delta) <= measured.error
    mechanism = SampledGaussian(claim.sampled(), claim.noise_multiplier, claim.sampling.kind)
    return contradicts(mechanism.trade_off, guesses, measured.error)


def _balanced(measured: Measured, datasets: Sequence[Data]) -> int:
    """Providers of two classes of the size of the smaller, which bounds how sure a balanced accuracy is."""
    data = next((one for one in datasets if one.subject == measured.check.subject), None)
    providers = measured.metric.n if isinstance(measured.metric.n, int) else 0
    sizes = [size for size in (data.members, data.non_members) if isinstance(size, int)] if data is not None else []
    return 2 * (providers * min(sizes) // sum(sizes)) if sum(sizes) else providers

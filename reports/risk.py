"""Severity and likelihood of a finding by a stated rule, on the four steps of the CNIL's impact assessments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pfl_audit.core.results import Check, Results

STEPS: Final = ("negligible", "limited", "significant", "maximum")
_SEVERITY: Final = {"utility": 1, "membership": 2, "contact": 2, "values": 3, "documents": 4}
_BARRIERS: Final = {
    "public-api": {"answers": 0, "scores": 1, "weights": 2, "updates": 2},
    "internal": {"answers": 1, "scores": 1, "weights": 2, "updates": 2},
    "open-weights": {"answers": 0, "scores": 0, "weights": 0, "updates": 2},
}
"""Steps of likelihood that are taken off, by release and by what the attack needs."""
_MANY: Final = 0.5
_SOME: Final = 0.1
_LOW: Final = 0.1
"""False alarms above which the success is none at a low rate."""

RULE: Final = (
    "Severity, by the kind of data that comes out: how well the model reads, negligible; membership, names and contact "
    "details, limited; single values of private documents, significant; what a person wrote as a whole, maximum. One "
    "step more where members are persons. Data of special categories (GDPR, article 9) are not recognised: raise the "
    "step yourself.",
    "Likelihood, by success at no more than 10 of 100 false alarms: at least 50 of 100, maximum; at least 10, "
    "significant; else limited. One step less for a sign that is no proof; negligible without evidence. Then less by "
    "what the attack needs beyond the declared release. Public interface: confidences one step, weights or updates "
    "two. Internal: questions or confidences one, weights or updates two. Open weights: updates two. Undeclared: "
    "nothing is taken off.",
)
"""The rule as it is printed."""


@dataclass(frozen=True)
class Risk:
    """Risk of a finding.

    Attributes:
        severity: Step from 1 to 4, or None where the attack declares no kind of data.
        likelihood: Step from 1 to 4, or None where it is not known.
    """

    severity: int | None
    likelihood: int | None

    @property
    def order(self) -> tuple[int, int]:
        """Worst risks first."""
        return -(self.severity or 0) * (self.likelihood or 0), -(self.likelihood or 0)


def risk_of(check: Check, results: Results) -> Risk:
    """Risk of a check with a finding."""
    review = check.review
    if review is None or check.finding is None:
        return Risk(None, None)
    persons = any(data.unit == "persons" for data in results.datasets if data.subject == check.subject)
    severity = _SEVERITY[review.obtains]
    if persons and severity > 1:
        severity = min(severity + 1, len(STEPS))
    return Risk(severity, _likelihood(check, results))


def _likelihood(check: Check, results: Results) -> int | None:
    finding, review = check.finding, check.review
    if finding is None or review is None or finding.level == "unresolved":
        return None
    if finding.level == "none":
        return 1
    success = finding.success or 0.0
    low = finding.false_alarms is None or finding.false_alarms <= _LOW
    step = 2 if not low else 4 if success >= _MANY else 3 if success >= _SOME else 2
    step -= finding.level == "weak"
    step -= _BARRIERS[results.release][review.access] if results.release else 0
    return max(1, step)

"""Waivers and the baseline, which take findings and gates by number out of what fails."""

from __future__ import annotations

from collections.abc import Sequence

from pfl_audit.core.gate_policy import Earlier, GatePolicy
from pfl_audit.core.gates import GUARANTEE, guaranteed, least_favourable
from pfl_audit.core.results import Check, Data, Gate
from pfl_audit.core.schema import Baseline, LimitResult
from pfl_audit.core.waivers import Waiver

_BADNESS = {"none": 0, "weak": 1, "leak": 2}


def exempt(gate: Gate, checks: Sequence[Check], policy: GatePolicy, datasets: Sequence[Data] = ()) -> Gate:
    """The gate without what is waived, and without what is no worse than in the baseline.

    What could not be audited is never exempt. Of the metrics of a check that a gate by number is about, the least
    favourable that is left decides.

    Args:
        gate: The gate before, with a result a metric.
        checks: All of the audit.
        policy: Waivers, baseline, and the day.
        datasets: What the audit asked about.
    """
    waivers = _Waivers(policy)
    waived = [name for name in gate.over if waivers.accept(name)]
    left = [name for name in gate.over if name not in waived]
    numbers = [waivers.applied(result) for result in gate.numbers]
    as_before: list[str] = []
    record = None
    if policy.baseline is not None:
        as_before = [name for name in left if not _finding_is_worse(name, checks, policy.baseline)]
        numbers = [_against(result, policy.baseline) for result in numbers]
        record = Baseline(
            path=policy.baseline.path,
            sha256=policy.baseline.sha256,
            started=policy.baseline.results.provenance.started,
            same_documents=_digests(datasets) == _digests(policy.baseline.results.datasets),
        )
    return gate.model_copy(
        update={
            "over": [name for name in left if name not in as_before],
            "numbers": least_favourable(numbers),
            "waivers": [one.record(policy.today, used=one in waivers.used) for one in policy.waivers],
            "waived": waived,
            "as_before": as_before,
            "baseline": record,
        }
    )


class _Waivers:
    """Waivers that have not expired, and which of them were used."""

    def __init__(self, policy: GatePolicy) -> None:
        self._valid = [one for one in policy.waivers if one.expires >= policy.today]
        self.used: list[Waiver] = []

    def accept(self, check: str, metric: str | None = None) -> Waiver | None:
        """The first waiver of a check's finding, or of its gate on a metric; one about a metric covers no finding."""
        found = next((one for one in self._valid if one.covers(check, metric)), None)
        if found is not None and found not in self.used:
            self.used.append(found)
        return found

    def applied(self, result: LimitResult) -> LimitResult:
        """A result of a gate, waived where a waiver covers its failure."""
        if result.status != "failed":
            return result
        waiver = self.accept(result.check, result.metric)
        if waiver is None:
            return result
        text = f"accepted until {waiver.expires.isoformat()}"
        return result.model_copy(update={"status": "waived", "reason": text})


def _finding_is_worse(name: str, checks: Sequence[Check], baseline: Earlier) -> bool:
    """Whether a finding is of a worse level than in the baseline, or is not resolved there."""
    now = next(check for check in checks if check.id == name)
    before = next((check for check in baseline.results.checks if check.id == name), None)
    if before is None or before.finding is None or now.finding is None:
        return True
    return _BADNESS[now.finding.level] > _BADNESS.get(before.finding.level, -1)


def _against(result: LimitResult, baseline: Earlier) -> LimitResult:
    """A failed gate, exempt where the number is no worse than in the baseline."""
    if result.status != "failed" or result.compared is None:
        return result
    before = _before(result, baseline)
    worse = before is None or (result.compared < before if result.end == "lower" else result.compared > before)
    if worse:
        return result
    return result.model_copy(update={"status": "as before", "reason": "no worse than in the baseline"})


def _before(result: LimitResult, baseline: Earlier) -> float | None:
    """The same number of the baseline: the same end of the interval, or the value."""
    if result.check == GUARANTEE:
        review = baseline.results.target.claim_review
        known = review is not None and review.claim is not None and review.epsilon is not None
        return guaranteed(review, result.metric or "") if review is not None and known else None
    for check in baseline.results.checks:
        if check.id == result.check and check.status == "ran":
            for metric in check.metrics:
                if (metric.name, metric.slice) == (result.metric, result.slice):
                    if result.end == "estimate" or metric.ci is None:
                        return metric.value
                    return metric.ci[1] if result.end == "upper" else metric.ci[0]
    return None


def _digests(datasets: Sequence[Data]) -> set[tuple[str, str]]:
    return {(data.subject, data.sha256) for data in datasets}

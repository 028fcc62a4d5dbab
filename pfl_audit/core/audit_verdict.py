"""The verdict over all findings, the gate with what waivers and a baseline take out of it, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pfl_audit.core.gate_policy import Earlier, GatePolicy, Requirements
from pfl_audit.core.gates import GUARANTEE, guaranteed, hold, hold_guarantee, least_favourable
from pfl_audit.core.keyed import has_digests
from pfl_audit.core.schema import Baseline, Check, Data, FailOn, Gate, LimitResult, Verdict
from pfl_audit.core.waivers import Waiver
from pfl_audit.errors import EXIT_FINDING, EXIT_NOT_AUDITED, EXIT_OK
from pfl_audit.privacy.guarantee import GuaranteeReview

NOTHING: Final = "any check"
"""What is required of every audit: one check that ran, and of those with a finding one that is resolved, by which more
than utility could have come out where there is such a finding."""
_BADNESS = {"none": 0, "weak": 1, "leak": 2}
_MODEL: Final = "the model"


def decide(
    checks: Sequence[Check],
    fail_on: FailOn,
    policy: GatePolicy | None = None,
    *,
    guarantee: GuaranteeReview | None = None,
    datasets: Sequence[Data] = (),
    audited: str = "the model",
) -> Verdict:
    """The verdict over all checks, and the gate; what did not run never counts as a pass.

    Args:
        checks: All of the audit.
        fail_on: Findings that make the command fail.
        policy: Requirements, gates by number, waivers and baseline; none if not given.
        guarantee: Review of the privacy guarantee with what attacks measured, for gates on it.
        datasets: What the audit asked about, for the comparison with the baseline and the unit of the guarantee.
        audited: What the findings are about, in a sentence.
    """
    policy = policy or GatePolicy()
    found = {
        level: [check.id for check in checks if check.finding and check.finding.level == level]
        for level in ("leak", "weak", "none", "unresolved")
    }
    ran = sum(map(len, found.values()))
    lacking = _unmet(policy.named, checks) + _unmet(policy.required, checks)
    made = [check for check in checks if check.finding]
    if not any(map(_is_audited, [check for check in made if not is_utility(check)] or made or checks)):
        lacking = lacking or [NOTHING]
    if found["leak"]:
        status: Literal["leaks", "no-evidence", "incomplete"] = "leaks"
        count = len(found["leak"])
        gives = f"{audited[:1].upper()}{audited[1:]} gives away training data"
        summary = f"{gives}: {count} of {ran} findings {'is' if count == 1 else 'are'} a leak."
    elif lacking:
        status = "incomplete"
        what = "nothing could be" if lacking == [NOTHING] else f"{len(set(lacking))} of what was required could not be"
        reads = " except how well the model reads" if lacking == [NOTHING] and any(map(_is_audited, made)) else ""
        summary = f"No leak was found, but {what} audited{reads}."
    else:
        status = "no-evidence"
        none = "The one finding is no leak" if ran == 1 else f"None of {ran} findings is a leak"
        summary = f"{none}. That is no proof that there is none."
    if found["unresolved"] and status == "no-evidence":
        summary += f" {len(found['unresolved'])} could not be resolved with these documents."
    if found["weak"]:
        summary += f" {len(found['weak'])} {'more ' if found['leak'] else ''}showed a weak sign."
    if left_out := sum(check.status != "ran" for check in checks):
        summary += f" {left_out} of {len(checks)} checks did not run; each row gives the reason."
    over = {"leak": found["leak"], "weak": found["leak"] + found["weak"], "never": []}[fail_on]
    units = {data.unit for data in datasets}
    results = [
        result
        for limit in policy.limits
        for result in ([hold_guarantee(limit, guarantee, units)] if limit.check == GUARANTEE else hold(limit, checks))
    ]
    gate = Gate(
        fail_on=fail_on,
        over=over,
        lacking=list(dict.fromkeys(_unmet(policy.required, checks) if fail_on == "never" else lacking)),
        numbers=results,
    )
    gate = _exempt(gate, checks, policy, datasets)
    if failed := sum(result.status in ("failed", "not audited") for result in gate.numbers):
        summary += f" {failed} of {len(gate.numbers)} gates by number {'is' if failed == 1 else 'are'} not passed."
    return Verdict(status=status, gate=gate, summary=summary)


def _is_audited(check: Check) -> bool:
    """Whether a check ran and what it found is resolved."""
    return check.status == "ran" and (check.finding is None or check.finding.level != "unresolved")


def is_utility(check: Check) -> bool:
    """Whether a check says how well the model reads, by which no value and no membership comes out."""
    return check.review is not None and check.review.obtains == "utility"


def _unmet(required: Requirements, checks: Sequence[Check]) -> list[str]:
    """Names of which no check is audited."""
    audited = {check.id for check in checks if _is_audited(check)}
    return [name for name, ids in required.items() if not ids & audited]


def exit_code(verdict: Verdict) -> int:
    """1 for a finding or a number over the gate; 3 where something required could not be audited; else 0."""
    gate = verdict.gate
    statuses = {result.status for result in gate.numbers}
    if gate.over or "failed" in statuses:
        return EXIT_FINDING
    return EXIT_NOT_AUDITED if gate.lacking or "not audited" in statuses else EXIT_OK


def _exempt(gate: Gate, checks: Sequence[Check], policy: GatePolicy, datasets: Sequence[Data] = ()) -> Gate:
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
        before = policy.baseline.results
        as_before = [name for name in left if not _finding_is_worse(name, checks, policy.baseline)]
        numbers = [_against(result, policy.baseline) for result in numbers]
        record = Baseline(
            path=policy.baseline.path,
            sha256=policy.baseline.sha256,
            started=policy.baseline.results.provenance.started,
            same_documents=_digests(datasets) == _digests(before.datasets) if has_digests(before) else None,
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
    """Number of the baseline to compare with: the same end of the interval, or the value; None where it is rounded."""
    if result.check == GUARANTEE:
        review = baseline.results.target.claim_review
        known = review is not None and review.claim is not None and review.epsilon is not None
        return guaranteed(review, result.metric or "") if review is not None and known else None
    for check in baseline.results.checks:
        if check.id == result.check and check.status == "ran":
            for metric in check.metrics:
                if (metric.name, metric.slice) == (result.metric, result.slice) and metric.step is None:
                    if result.end == "estimate" or metric.ci is None:
                        return metric.value
                    return metric.ci[1] if result.end == "upper" else metric.ci[0]
    return None


def _digests(datasets: Sequence[Data]) -> set[tuple[str, str]]:
    return {(data.subject, data.sha256) for data in datasets}


def audited(datasets: Sequence[Data], checks: Sequence[Check]) -> str:
    """What leaks, in a sentence; without a leak, all that was audited.

    Args:
        datasets: Data sets of the audit, which state what findings about them concern.
        checks: Checks with the subject that each belongs to.
    """
    leaking = {check.subject for check in checks if check.finding and check.finding.level == "leak"}
    chosen = [data for data in datasets if data.subject in leaking] or datasets
    return " and ".join(dict.fromkeys(data.audited or _MODEL for data in chosen)) or _MODEL

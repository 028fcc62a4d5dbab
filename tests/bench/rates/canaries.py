"""Reports on update canaries: of canaries without effect, and of the correct trainer.

Of canaries without effect a bound above 0 would be false, and the correct trainer may be contradicted, or its
parameters be missed, in 5 % of the runs.
"""

from __future__ import annotations

from functools import cache, partial
from unittest.mock import patch

from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.training.federated.canaries import run
from pfl_audit.training.federated.canaries.report import CanaryReport, family_of, report_on
from pfl_audit.training.federated.worker import Worker
from tests.bench.rates.engine import Design, design
from tests.training.federated.canary_runs import CLAIM, DUAL, GROUPS, SCHEDULE, manifest, run_canaries

RATE = 0.05
CLAIMS = {"poisson": CLAIM, "groups": GROUPS, "dual": DUAL, "schedule": SCHEDULE}


@cache
def _family(name: str):  # type: ignore[no-untyped-def]
    return cache(family_of(CLAIMS[name]))  # each search for a bound tries many of the same mechanisms


def without_effect(name: str, number: int) -> str:
    """Whether a report on canaries that do nothing has a bound above 0."""
    with (
        patch.object(run, "LENGTH", 0.0),
        patch.object(run, "BESIDE_DUAL", 0.0),
        patch.object(Worker, "_check", lambda self: None),  # a worker refuses updates that do nothing
    ):
        report = _report(name, number)
    return "bound above 0" if max(report.epsilon, report.epsilon_of_family) > 0 else "no bound"


def correct(name: str, number: int) -> str:
    """Whether the correct trainer is contradicted, or one of its parameters lies outside of its interval."""
    report = _report(name, number + 10_000)
    return "contradicted" if report.contradictions else "missed" if _missed(report, CLAIMS[name]) else "as stated"


def _report(name: str, number: int) -> CanaryReport:
    claim = CLAIMS[name]
    drawn = manifest(number, 1000, 50)
    return report_on(claim, drawn, run_canaries(claim, drawn, 4, number % 10_000), _family(name))


def _missed(report: CanaryReport, claim: PrivacyGuarantee) -> bool:
    truths = {
        "noise_multiplier": claim.noise_multiplier,
        "sampling_rate": claim.sampling.provider_rate,
        "clip": 1.0,
        "correlation": 0.0,
        "draws": 0.0,
    }
    estimates = ((getattr(report.estimates, name), truth) for name, truth in truths.items())
    return not all(estimate.low <= truth <= estimate.high for estimate, truth in estimates)


DESIGNS: tuple[Design, ...] = (
    *(
        design(f"canaries without effect: {name}", partial(without_effect, name), {"bound above 0": RATE})
        for name in CLAIMS
    ),
    *(
        design(f"correct trainer: {name}", partial(correct, name), {"contradicted": RATE, "missed": RATE})
        for name in CLAIMS
    ),
)

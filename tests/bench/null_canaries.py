"""False alarms of update canaries: python -m tests.bench.null_canaries [RUNS] [poisson|groups|dual].

Canaries without effect, of which a bound above 0 would be false, and the correct trainer, which a report would
contradict wrongly, each with coins and noise of their own. Both may happen in 5 % of the runs.
"""

from __future__ import annotations

import sys
from functools import cache

from scipy.stats import binom

from pfl_audit.cli.console import make_progress
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.training.federated.canaries import run
from pfl_audit.training.federated.canaries.report import CanaryReport, family_of, report_on
from pfl_audit.training.federated.worker import Worker
from tests.training.federated.test_canaries import CLAIM, DUAL, GROUPS, manifest, run_canaries

RATE = 0.05
CLAIMS = {"poisson": CLAIM, "groups": GROUPS, "dual": DUAL}


def main(runs: int, claim: PrivacyGuarantee) -> None:
    """Count and print both, with the number that 5 % stays below in 99 of 100 such counts."""
    family = cache(family_of(claim))  # each search for a bound tries many of the same mechanisms
    found = {"effect": 0, "bound": 0, "contradicted": 0, "missed": 0}
    effect, beside, check = run.LENGTH, run.BESIDE_DUAL, Worker._check
    with make_progress(quiet=False).task("runs", 2 * runs) as task:
        for seed in range(runs):
            for length in (0.0, effect):
                run.LENGTH, run.BESIDE_DUAL = length, beside * (length > 0)  # a worker refuses updates that do nothing
                Worker._check = (lambda self: None) if not length else check  # type: ignore[method-assign]
                drawn = manifest(seed + 10_000 * (length > 0), 1000, 50)
                report = report_on(claim, drawn, run_canaries(claim, drawn, 4, seed), family)
                if not length:
                    found["bound"] += max(report.epsilon, report.epsilon_of_family) > 0
                else:
                    found["contradicted"] += bool(report.contradictions)
                    found["missed"] += _missed(report)
                task.advance(1)
    most = int(binom.ppf(0.99, runs, RATE))
    print(f"canaries without effect: {found['bound']} of {runs} runs with a bound above 0 (at most {most} wanted)")
    print(f"correct trainer: {found['contradicted']} of {runs} runs contradicted (at most {most} wanted)")
    print(
        f"correct trainer: {found['missed']} of {runs} runs with an interval without the truth (at most {most} wanted)"
    )


def _missed(report: CanaryReport) -> bool:
    claim = report.claim
    truths = {
        "noise_multiplier": claim.noise_multiplier,
        "sampling_rate": claim.sampling.provider_rate,
        "clip": 1.0,
        "correlation": 0.0,
    }
    estimates = ((getattr(report.estimates, name), truth) for name, truth in truths.items())
    return not all(estimate.low <= truth <= estimate.high for estimate, truth in estimates)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500, CLAIMS[sys.argv[2] if len(sys.argv) > 2 else "poisson"])

"""False alarms of update canaries: python -m tests.bench.null_canaries [RUNS].

Canaries without effect, of which a bound above 0 would be false, and the correct trainer, which a report would
contradict wrongly, each with coins and noise of their own. Both may happen in 5 % of the runs.
"""

from __future__ import annotations

import sys

from scipy.stats import binom

from pfl_audit.cli.console import make_progress
from pfl_audit.training.federated.canaries import run
from pfl_audit.training.federated.canaries.report import CanaryReport, family_of, report_on
from pfl_audit.training.federated.worker import Worker
from tests.training.federated.test_canaries import CLAIM, manifest, run_canaries

RATE = 0.05
TRUTHS = {"noise_multiplier": 0.7715, "sampling_rate": 0.2, "clip": 1.0, "correlation": 0.0}


def main(runs: int) -> None:
    """Count and print both, with the number that 5 % stays below in 99 of 100 such counts."""
    family = family_of(CLAIM)
    found = {"effect": 0, "bound": 0, "contradicted": 0, "missed": 0}
    effect, check = run.LENGTH, Worker._check
    with make_progress(quiet=False).task("runs", 2 * runs) as task:
        for seed in range(runs):
            for length in (0.0, effect):
                run.LENGTH = length  # a worker refuses updates that do nothing
                Worker._check = (lambda self: None) if not length else check  # type: ignore[method-assign]
                drawn = manifest(seed + 10_000 * (length > 0), 1000, 50)
                report = report_on(CLAIM, drawn, run_canaries(CLAIM, drawn, 4, seed), family)
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
    estimates = ((getattr(report.estimates, name), truth) for name, truth in TRUTHS.items())
    return not all(estimate.low <= truth <= estimate.high for estimate, truth in estimates)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)

"""Resampled curves of a likelihood ratio by the number of providers: OMP_NUM_THREADS=1 python -m tests.bench.curves.

One seed: the area under the curve and the TPR at each limit of the FPR, of every resample of an audit, for scores of
which no two are equal. Each size is a process of its own; memory is the peak above that of the process with the scores
and resamples drawn.
"""

from __future__ import annotations

import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from pfl_audit.attacks.membership.evaluation import FPR_LIMITS
from pfl_audit.metrics.intervals import RESAMPLES
from pfl_audit.metrics.ranking import sweep

SIZES = (200, 1000, 4000)


def measured(providers: int) -> str:
    """One row."""
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=providers), rng.random(providers) < 0.5
    counts = np.empty((providers, RESAMPLES), dtype=np.float32)
    for resample in counts.T:
        resample[:] = rng.multinomial(providers, np.full(providers, 1 / providers))
    sweep(scores[:100], labels[:100]).resampled(counts[:100, :2], FPR_LIMITS)
    held, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    sweep(scores, labels).resampled(counts, FPR_LIMITS)
    seconds = time.process_time() - begun
    return (
        f"| {providers:,} | {seconds:.2f} | {(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1024:.0f} |"
    )


def main() -> None:
    """Print the table."""
    print(f"{RESAMPLES} resamples\n\n| providers | CPU s | MB |\n| --- | --- | --- |", flush=True)
    for providers in SIZES:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            print(pool.submit(measured, providers).result(), flush=True)


if __name__ == "__main__":
    main()

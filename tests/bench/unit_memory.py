"""Memory of the statistics of many units: python -m tests.bench.unit_memory [UNITS].

Megabytes at the peak, above those of the process before, CPU seconds, and SHA-256 of the numbers; a process each.
"""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from pfl_audit.metrics.arrays import Floats, permuted_rows
from pfl_audit.metrics.contrasts import area, item_gap, resampled
from pfl_audit.metrics.intervals import bootstrap_counts
from pfl_audit.metrics.smallest_gap import smallest_gap


def bootstrap(units: int, rng: np.random.Generator) -> Floats:
    """2,000 resamples of a difference of means and of an area."""
    labels, sums, counts = drawn(units, rng)
    weights = bootstrap_counts(labels, rng).T
    found = [resampled(contrast, labels, weights) for contrast in (item_gap(sums, counts), area(sums))]
    return np.concatenate([one.samples for one in found])


def gap(units: int, rng: np.random.Generator) -> Floats:
    """The smallest gap of 500 permutations and 200 drawn audits."""
    labels, sums, counts = drawn(units, rng)
    found = smallest_gap(np.minimum(sums, 3), counts, labels, 0.01, 2.0, rng)
    return np.array([np.nan if found is None else found])


def exchange(units: int, rng: np.random.Generator) -> Floats:
    """2,000 permutations of units over two sets, as drawn."""
    return permuted_rows(np.arange(units) < units // 2, rng, 2000).mean(axis=0)


def drawn(units: int, rng: np.random.Generator) -> tuple[np.ndarray, Floats, Floats]:
    """Labels, and sums and numbers of scores."""
    labels = rng.random(units) < 0.5
    return labels, rng.random(units) * 3, np.full(units, 3.0) + np.arange(units) % 2


WORK: dict[str, Callable[[int, np.random.Generator], Floats]] = {
    "bootstrap": bootstrap,
    "gap": gap,
    "exchange": exchange,
}


def peak() -> float:
    """Megabytes of this process at its peak."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        name, units = sys.argv[2], int(sys.argv[3])
        before, begun = peak(), time.process_time()
        found = WORK[name](units, np.random.default_rng(0))
        digest = hashlib.sha256(found.tobytes()).hexdigest()[:12]
        spent = time.process_time() - begun
        print(f"{name}, {units:,} units: {peak() - before:.0f} MB, {spent:.1f} CPU s, {digest}")
    else:
        for name in WORK:
            command = [sys.executable, "-m", "tests.bench.unit_memory", "one", name, *(sys.argv[1:] or ["50000"])]
            subprocess.run(command, check=True)

"""CPU seconds of an evaluation of epsilon and of a search for the noise: python -m tests.bench.accountant."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from pfl_audit.privacy import accounting
from pfl_audit.privacy.calibration import calibrate_noise
from pfl_audit.privacy.pld import Kind, SampledGaussian
from pfl_audit.privacy.sampling import Sampling

SETTINGS: tuple[tuple[str, Sampling, float, float, Kind], ...] = (
    ("providers, q 0.2, T 10", Sampling(1.0, 0.2, 10), 0.7715, 1e-5, "poisson"),
    ("clients, q 0.2 x 1, T 10", Sampling(0.2, 1.0, 10), 0.7715, 1e-5, "poisson"),
    ("groups of 50 of 400, 2 of 10 clients, T 5", Sampling(0.2, 0.125, 5), 1.145, 1e-5, "fixed-size"),
    ("q 0.1, T 100", Sampling(1.0, 0.1, 100), 0.9369, 1e-5, "poisson"),
    ("q 1e-5, T 10,000, delta 1e-12", Sampling(1.0, 1e-5, 10_000), 0.5, 1e-12, "poisson"),
    ("q 1e-6, T 100,000", Sampling(1.0, 1e-6, 100_000), 0.5, 1e-10, "poisson"),
)
"""Name, sampling, noise multiplier, delta and kind of draws."""
WANTED = (0.2, 2.0)
"""CPU seconds of an evaluation and of a search."""
_TURNS = 3


def main() -> None:
    """Print the median of three turns, each without what the one before has kept."""
    print(f"CPU seconds, wanted at most {WANTED[0]} for an evaluation by PLD and {WANTED[1]} for a search")
    for name, sampling, noise, delta, kind in SETTINGS:
        by_pld = seconds(lambda s=sampling, n=noise, d=delta, k=kind: SampledGaussian(s, n, k).epsilon(d))
        both = seconds(lambda s=sampling, n=noise, d=delta, k=kind: accounting.privacy_spent(s, n, d, kind=k))
        search = seconds(lambda s=sampling, d=delta, k=kind: calibrate_noise(8.0, d, s, kind=k))
        print(f"{name}: {by_pld:.2f} by PLD, {both:.2f} with the Rényi bound, {search:.2f} a search", flush=True)


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of some work, median of three turns."""
    turns = []
    for _ in range(_TURNS):
        accounting._spent.cache_clear()
        began = time.process_time()
        work()
        turns.append(time.process_time() - began)
    return statistics.median(turns)


if __name__ == "__main__":
    main()

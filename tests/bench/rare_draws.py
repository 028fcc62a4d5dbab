"""Epsilon of single rounds with rare draws against 40 digits: python -m tests.bench.rare_draws."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from pfl_audit.privacy.pld import SampledGaussian
from pfl_audit.privacy.sampling import Sampling
from tests.privacy.test_pld import exact_delta
from tests.privacy.tolerances import ABSOLUTE_TOLERANCE, RELATIVE_TOLERANCE

_SETTINGS = 40


def main() -> None:
    """Print how many of the settings are within the tolerance, and the loosest."""
    rng, rows = np.random.default_rng(0), list[tuple[float, float, float]]()
    while len(rows) < _SETTINGS:
        rate, noise, delta = 10 ** rng.uniform(-6, -3), 10 ** rng.uniform(-0.5, 1), 10 ** rng.uniform(-12, -5)

        def excess(epsilon: float, rate: float = rate, noise: float = noise, delta: float = delta) -> float:
            return max(exact_delta(rate, noise, epsilon, added=added) for added in (False, True)) - delta

        if excess(0.0) > 0 > excess(60.0):
            exact = float(brentq(excess, 0.0, 60.0, xtol=1e-9))
            found = SampledGaussian(Sampling(1.0, rate, 1), noise).epsilon(delta)
            rows.append((found, exact, excess(found)))
    near = sum(found - exact <= max(ABSOLUTE_TOLERANCE, RELATIVE_TOLERANCE * exact) for found, exact, _ in rows)
    loosest = max(rows, key=lambda row: row[0] - row[1])
    print(f"{near} of {len(rows)} within the tolerance; the loosest {loosest[0]:.4g} for {loosest[1]:.4g}; "
          f"too low: {sum(over > 1e-12 for *_, over in rows)}")  # fmt: skip


if __name__ == "__main__":
    main()

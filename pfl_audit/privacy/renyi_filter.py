"""Rényi filter: what runs over the same data spend together, where each may be chosen by the results of those before.

Feldman and Zrnic 2021, "Individual Privacy Accounting via a Rényi Filter": at one order that is fixed beforehand, runs
compose by the sum of their divergences, also where their settings depend on earlier results, as long as the next one is
refused that would lift the sum above a budget. The sum is turned into epsilon by sum + ln(1/delta) / (order - 1)
(Mironov 2017, proposition 3), which holds after every run: exp((order - 1) (privacy loss - sum)) is a
supermartingale with mean 1, so that it exceeds 1/delta at any time with probability delta at most. A minimum over
orders would need the order to be chosen after the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from pfl_audit.privacy.loss_distribution import Floats
from pfl_audit.privacy.pld import Kind
from pfl_audit.privacy.renyi import round_moments
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.privacy.units import PrivacyUnit

_ASSUMED_RUNS = 4
"""Without a cap the order suits a budget of so many times the first run's epsilon."""
_SMALLEST = 1e-12


@dataclass(frozen=True)
class RunCost:
    """What a run spends.

    Attributes:
        sampling: Sampling of clients and providers, and the number of rounds.
        noise_multiplier: Standard deviation of the noise divided by the clipping norm.
        delta: Delta of the guarantee.
        epsilon: Epsilon of the run alone, by valid accounting.
        kind: How the units of a round are drawn, which decides the adjacency.
        loss: Largest privacy loss of a round beside, nats.
        unit: Unit of privacy.
    """

    sampling: Sampling
    noise_multiplier: float
    delta: float
    epsilon: float
    kind: Kind = "poisson"
    loss: float = 0.0
    unit: PrivacyUnit = "provider"

    def divergences(self, orders: Sequence[float]) -> Floats:
        """Rényi divergences of all rounds at these orders, float (n,), at least 0."""
        at = np.array(orders)
        return self.sampling.rounds * (
            round_moments(self.sampling, self.noise_multiplier, at, self.kind) / (at - 1) + self.loss
        )


def filter_epsilon(divergence: float, order: float, delta: float) -> float:
    """Epsilon of runs whose divergences at a fixed order have this sum."""
    return divergence + log(1 / delta) / (order - 1)


def best_order(cost: RunCost, orders: Sequence[float], cap: float | None) -> float:
    """The order at which most runs like the first one fit into the cap; it depends on no result.

    Args:
        cost: Cost of the first run.
        orders: To choose from.
        cap: Largest epsilon of all runs, or None.
    """
    at, spent = np.array(orders), np.maximum(cost.divergences(orders), _SMALLEST)
    budget = (cap or _ASSUMED_RUNS * cost.epsilon) - log(1 / cost.delta) / (at - 1)
    return float(at[np.argmax(budget / spent)])

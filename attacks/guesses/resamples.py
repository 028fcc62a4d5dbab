"""Resamples of units: statistics over fields that are drawn with their unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pfl_audit.metrics.arrays import Floats, blocks
from pfl_audit.metrics.intervals import RESAMPLES, Estimate, all_or_nothing, bootstrap_counts

RARE = 5
"""Units below which a share is drawn from its posterior for the improvement factor."""


class Resampled:
    """Resamples of units, and statistics over them.

    Args:
        units: The unit of each field, one at least.
    """

    def __init__(self, units: Sequence[str], rng: np.random.Generator, resamples: int = RESAMPLES) -> None:
        if not units:
            raise ValueError("there is no field")
        names, self._unit = np.unique(units, return_inverse=True)
        self.units = len(names)
        self._weights = bootstrap_counts(np.zeros(len(names), dtype=bool), rng, resamples).T
        self._rng = rng

    def statistic(self, function: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
        """A statistic on the fields as they are, and on every resample.

        Args:
            function: From weights of the fields (resamples, n) to (resamples, k).

        Returns:
            float64 (k,) and (resamples, k).
        """
        parts = [function(drawn.astype(np.float64, order="C")[:, self._unit]) for drawn in blocks(self._weights)]
        return function(np.ones((1, len(self._unit))))[0], np.concatenate(parts)

    def share(self, found: Estimate, part: float = 1.0) -> Estimate:
        """A share of right fields; exact where every field of it is wrong (or every one right) in all resamples.

        Args:
            found: Resampled share.
            part: Part of the units that the share is about.
        """
        if (found.samples != found.value).any():
            return found
        return all_or_nothing(found, max(1, round(part * self.units)), self._rng)

    def rare(self, share: float, samples: Floats) -> Floats:
        """Draws of a share in place of resamples, where too few units are right (or wrong) to resample them.

        Resamples of no hit are an exact 0, which a baseline in a denominator must not be. The draws are from Jeffreys'
        posterior Beta(x + 1/2, n - x + 1/2) over the n units, of which x are right.

        Args:
            share: Share of right fields that was measured.
            samples: Its resamples, float64 (resamples,); returned as they are where ``RARE`` units are on both sides.
        """
        right = share * self.units
        if min(right, self.units - right) >= RARE:
            return samples
        return self._rng.beta(right + 0.5, self.units - right + 0.5, size=len(samples))


def up_to_value(found: Estimate) -> Estimate:
    """The interval, up to its value: where a share is 0 or 1 throughout, draws of it lie to one side."""
    return replace(found, low=min(found.low, found.value), high=max(found.high, found.value))

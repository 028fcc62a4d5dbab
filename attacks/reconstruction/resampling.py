"""Numbers of fields with intervals over resampled documents: a document's fields stand and fall together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pfl_audit.metrics.intervals import RESAMPLES, Estimate, bootstrap_weights, estimate

Floats = NDArray[np.float64]

_CELLS = 4_000_000
"""Drawn fields that are held at once."""


class Resampled:
    """Resamples of documents, and statistics over them.

    Args:
        documents: The document of each field, one at least.
        rng: The only source of chance.
        resamples: How many.
    """

    def __init__(self, documents: Sequence[str], rng: np.random.Generator, resamples: int = RESAMPLES) -> None:
        if not documents:
            raise ValueError("there is no field")
        names, self._document = np.unique(documents, return_inverse=True)
        self.documents = len(names)
        self._weights = bootstrap_weights(np.zeros(len(names), dtype=bool), rng, resamples)
        self._rng = rng

    def statistic(self, function: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
        """A statistic on the fields as they are, and on every resample.

        Args:
            function: From weights of the fields (resamples, n) to (resamples, k).

        Returns:
            float64 (k,) and (resamples, k).
        """
        rows = max(1, _CELLS // len(self._document))
        parts = [
            function(self._weights[at : at + rows][:, self._document]) for at in range(0, len(self._weights), rows)
        ]
        return function(np.ones((1, len(self._document))))[0], np.concatenate(parts)

    def share(self, found: Estimate, part: float = 1.0) -> Estimate:
        """A share of right fields, with an interval that is honest about none and all.

        Where every field of it is wrong (or every one right) in all resamples, resampling shows no spread,
        however few documents there are. Its place takes Beta(1, documents), whose quantiles are the exact
        binomial bounds for 0 of them.

        Args:
            found: As resampled.
            part: Of the documents that the share is about.
        """
        value, count = found.value, len(found.samples)
        if value not in (0.0, 1.0) or (found.samples != value).any():
            return found
        distance = self._rng.beta(1, max(1, round(part * self.documents)), size=count)
        spread = estimate(value, distance if value == 0.0 else 1.0 - distance)
        return replace(spread, low=min(spread.low, value), high=max(spread.high, value))

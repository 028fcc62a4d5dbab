"""Statistics over fields with intervals over resampled documents: all fields of a document are drawn together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pfl_audit.metrics.intervals import RESAMPLES, Estimate, all_or_nothing, bootstrap_weights

Floats = NDArray[np.float64]

_CELLS = 4_000_000
"""Drawn fields that are held at once."""


class Resampled:
    """Resamples of documents, and statistics over them.

    Args:
        documents: The document of each field, one at least.
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
        """A share of right fields; exact where every field of it is wrong (or every one right) in all resamples.

        Args:
            found: Resampled share.
            part: Part of the documents that the share is about.
        """
        if (found.samples != found.value).any():
            return found
        return all_or_nothing(found, max(1, round(part * self.documents)), self._rng)

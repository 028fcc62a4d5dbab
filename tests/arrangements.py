"""All arrangements of the labels of a few units, in place of random permutations of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from unittest.mock import patch

import numpy as np

from pfl_audit.metrics.arrays import Bools
from pfl_audit.metrics.relabelling import Relabelling

SIDE = 6
"""Units of a class: 924 arrangements, of which the rarest has a p-value of 2 / 925 (it counts as drawn, too)."""


def arrangements(side: int = SIDE) -> Bools:
    """Every way of calling half of the units members, bool (arrangements, 2 * side)."""
    units = range(2 * side)
    return np.array([np.isin(units, members) for members in combinations(units, side)])


@contextmanager
def exact() -> Iterator[None]:
    """Permutation tests of six units a class go through every arrangement."""
    every = arrangements()

    def rows(labels: Bools, rng: np.random.Generator, permutations: int) -> Bools:
        assert len(labels) == every.shape[1]
        return np.concatenate([labels[None], every])

    def drawn(relabelling: Relabelling, rng: np.random.Generator, count: int) -> Bools:
        return rows(relabelling.labels, rng, count)

    with (
        patch.object(Relabelling, "draw", drawn),
        patch("pfl_audit.metrics.permutation.permuted_rows", rows),
        patch("pfl_audit.metrics.contrasts.permuted_rows", rows),
    ):
        yield

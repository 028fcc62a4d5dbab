"""Arrangements of the labels of members and non-members that are as likely as the observed one without a leak.

A group of companies that belong together, wholly in one class, moves as a whole; within a group of both classes its
companies move among themselves. Given the documents, labels of two units are exchanged by the odds of membership that
the documents give: the conditional permutation test of Berrett, Wang, Barber and Samworth (2020), section 3.2, with
their parallelised pairwise sampler. With equal odds it is the plain permutation test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from pfl_audit.metrics.arrays import Bools, Floats, Integers

STEPS: Final = 20
"""Times that every unit is paired with another between two draws: any number is valid, and with few the draws resemble
the data, which costs power. Labels of n units are mixed after some 2 log2(n)."""


@dataclass(frozen=True, eq=False)
class Relabelling:
    """Labels of companies, and the arrangements of them that are as likely.

    Attributes:
        labels: As observed, bool (n,), both classes.
        groups: Number of the group of each company, int (n,); of its own for a company that belongs to no other.
        log_odds: Logarithm of the odds of membership given the documents, float (n,); zeros where they say nothing.
    """

    labels: Bools
    groups: Integers
    log_odds: Floats

    @classmethod
    def plain(cls, labels: Bools, groups: Sequence[str] | None = None) -> Relabelling:
        """Every arrangement of whole groups is as likely; without groups, of companies."""
        numbers = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1]
        return cls(labels, numbers.astype(np.int64), np.zeros(len(labels)))

    @cached_property
    def _units(self) -> tuple[Integers, list[Integers]]:
        """Number of the unit that each company moves with, and the units that exchange labels, a set each."""
        groups = np.unique(self.groups, return_inverse=True)[1]
        mixed = [group for group in range(groups.max() + 1) if len(np.unique(self.labels[groups == group])) == 2]
        inside = np.isin(groups, mixed)
        units = np.unique(np.where(inside, groups.max() + 1 + np.arange(len(groups)), groups), return_inverse=True)[1]
        strata = [np.unique(units[~inside]), *(units[groups == group] for group in mixed)]
        return units.astype(np.int64), [stratum.astype(np.int64) for stratum in strata if len(stratum) > 1]

    @property
    def movable(self) -> float:
        """Effective number of companies that can move: n where the documents say nothing, 0 where they say all."""
        odds = 1 / (1 + np.exp(-self.log_odds))
        return float((4 * odds * (1 - odds)).sum())

    def draw(self, rng: np.random.Generator, count: int) -> Bools:
        """The labels, and below them arrangements that are exchangeable with them: bool (1 + count, n)."""
        units, strata = self._units
        if not strata:
            return np.tile(self.labels, (1 + count, 1))
        odds = self._of_units(self.log_odds)
        own = self._of_units(self.labels.astype(np.float64)) > 0
        pairs = [_pairs(strata, rng) for _ in range(STEPS)]
        hub = _walk(own[:, None], odds, pairs[::-1], rng)
        drawn = _walk(np.repeat(hub, count, axis=1), odds, pairs, rng)
        return np.concatenate([own[:, None], drawn], axis=1)[units].T

    def _of_units(self, values: Floats) -> Floats:
        """Mean over the companies of each unit."""
        units = self._units[0]
        return np.bincount(units, values) / np.bincount(units)


def _pairs(strata: Sequence[Integers], rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Each unit paired with another of its set, by chance; one is left over where their number is odd."""
    shuffled = [rng.permutation(stratum) for stratum in strata]
    halves = [(one[: len(one) // 2], one[len(one) // 2 : 2 * (len(one) // 2)]) for one in shuffled]
    first, second = (np.concatenate(side) for side in zip(*halves, strict=True))
    return first, second


def _walk(
    labels: Bools, log_odds: Floats, pairs: Sequence[tuple[Integers, Integers]], rng: np.random.Generator
) -> Bools:
    """Labels after exchanges within the pairs: of two that differ the first is the member by its odds.

    The pairs are the same for every column, and those of the walk back from the data are these in reverse order: given
    them, the data and the drawn arrangements are exchangeable.

    Args:
        labels: bool (units, arrangements).
    """
    labels = labels.copy()
    for first, second in pairs:
        differ = labels[first] != labels[second]
        likely = 1 / (1 + np.exp(log_odds[second] - log_odds[first]))
        chosen = rng.random(differ.shape, dtype=np.float32) < likely[:, None]
        labels[first] = np.where(differ, chosen, labels[first])
        labels[second] = np.where(differ, ~chosen, labels[second])
    return labels

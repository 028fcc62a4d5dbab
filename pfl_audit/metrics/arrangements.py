"""Number of arrangements of the labels of members and non-members, where units belong to groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, prod
from typing import Final

from pfl_audit.metrics.arrays import Bools

FEWEST: Final = 20
"""Arrangements from which on a permutation test can be significant at 5 %: its p-value is one of them at least."""


@dataclass(frozen=True)
class Arrangements:
    """Groups by their classes, and the arrangements of the labels that keep them.

    A pure group, of one class, moves as a whole, and each class keeps its number of pure groups. Units of a mixed group
    change labels among themselves alone, and the group keeps its number of members.

    Attributes:
        members: Number of groups of members alone.
        others: Number of groups of non-members alone.
        mixed: Number of units and of members of each group that has both.
    """

    members: int
    others: int
    mixed: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """Number of arrangements, the observed one included: C(G, G of members) times C(n, m) of each mixed group."""
        return comb(self.members + self.others, self.members) * prod(
            comb(units, inside) for units, inside in self.mixed
        )

    def groups_needed(self, fewest: int = FEWEST) -> int:
        """Smallest number of pure groups that each class needs at least for so many arrangements.

        A class that has more keeps them, and mixed groups stay as they are.
        """
        needed, moved = 0, self
        while moved.count < fewest:
            needed += 1
            moved = Arrangements(max(needed, self.members), max(needed, self.others), self.mixed)
        return needed


def arrangements_of(labels: Bools, groups: Sequence[str]) -> Arrangements:
    """Count the groups of each class.

    Args:
        labels: bool (n,), true for members.
        groups: Name of the group of each unit, length n.
    """
    sizes, inside = Counter(groups), Counter(group for group, member in zip(groups, labels, strict=True) if member)
    return Arrangements(
        members=sum(inside[group] == size for group, size in sizes.items()),
        others=sum(inside[group] == 0 for group in sizes),
        mixed=tuple((size, inside[group]) for group, size in sizes.items() if 0 < inside[group] < size),
    )

"""Sets whose Jaccard index is large: all of them, groups of them, or one for each set; exactly.

A set is compared with those that share one of its rarest elements, so that no similar one is missed. Groups, and a
similar set for each, take few comparisons even where all sets are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pfl_audit.documents.set_index import SetIndex, Small, runs
from pfl_audit.metrics.arrays import Bools, Integers

_FIRST = 8
"""Sets that are compared at first; then more, by _GROWTH, as far as they may still say something new."""
_GROWTH = 64


def similar_sets(index: SetIndex, threshold: float) -> Iterator[Integers]:
    """For each set, the rising numbers of all others with a Jaccard index of at least ``threshold``, above 0."""
    prefixes, every = _Prefixes(index, threshold), np.arange(len(index))
    lists = _Lists(prefixes.sets, prefixes.elements)
    for one in range(len(index)):
        others = _distinct(lists.sets, *lists.of(prefixes.elements[prefixes.of(one)]), every)
        yield index.similar(one, others[others != one], threshold)


def similar_groups(index: SetIndex, threshold: float) -> Integers:
    """Groups of sets that are linked by a Jaccard index of at least ``threshold``.

    Sets that are known to be of one group are not compared: the set before in the list of each element is compared
    first, then those of other groups.

    Args:
        index: n sets.
        threshold: Above 0, up to 1.

    Returns:
        Number of the group, int (n,).
    """
    prefixes, groups = _Prefixes(index, threshold), _Groups(len(index))

    def link(one: int, others: Integers) -> None:
        size = _FIRST
        while len(others := others[groups.of[others] != groups.of[one]]):
            for other in index.similar(one, others[:size], threshold).tolist():
                groups.join(one, other)
            others, size = others[size:], size * _GROWTH

    before = _set_before(prefixes)
    for one in range(len(index)):
        others = before[prefixes.of(one)]
        link(one, np.unique(others[others >= 0])[::-1])
    found = groups.of.copy()
    listed = prefixes.elements.astype(np.int64) * len(index) + found[prefixes.sets]  # by element, then by group
    lists = _Lists(prefixes.sets, listed)
    starts, _ = lists.of(prefixes.elements.astype(np.int64) * len(index))
    lengths = lists.of(listed)[0] - starts
    by_group = np.argsort(found, kind="stable")
    earlier = np.searchsorted(found[by_group], found)
    for one in np.unique(prefixes.sets[lengths > 0]).tolist():
        own = prefixes.of(one)
        link(one, _distinct(lists.sets, starts[own], lengths[own], by_group[: earlier[one]]))
    return groups.of


def last_similar(
    index: SetIndex,
    asked: Integers,
    among: Integers,
    threshold: float,
    accept: Callable[[int, Integers], Bools] | None = None,
) -> Iterator[int]:
    """For each set that is asked about, the last of some others with a Jaccard index of at least ``threshold``.

    The end of the list of each element is searched first.

    Args:
        index: All sets.
        asked: Integers of the sets that are asked about.
        among: Rising numbers of the sets that are searched.
        threshold: Above 0, up to 1.
        accept: Which of the similar sets count, from the number of a set and those of the others; all if None.

    Yields:
        A number of ``among``, or -1.
    """
    prefixes = _Prefixes(index, threshold)
    chosen = np.isin(prefixes.sets, among)
    lists = _Lists(prefixes.sets[chosen], prefixes.elements[chosen])
    for one in asked.tolist():
        starts, lengths = lists.of(prefixes.elements[prefixes.of(one)])
        found, searched, size = -1, len(index), _FIRST
        while found < 0 and searched > 0:
            taken = np.minimum(lengths, size)
            skipped = lists.sets[(starts + lengths - taken - 1)[lengths > taken]]
            complete = int(skipped.max(initial=-1)) + 1  # from here on, no set of any list is left out
            others = _distinct(lists.sets, starts + lengths - taken, taken, among)
            others = others[(others >= complete) & (others < searched) & (others != one)]
            others = index.similar(one, others, threshold)
            if accept is not None and len(others):
                others = others[accept(one, others)]
            found = int(others.max(initial=-1))
            searched, size = complete, size * _GROWTH
        yield found


class _Prefixes:
    """The rarest elements of all sets.

    Attributes:
        sets: Rising, int (entries,).
        elements: int (entries,).
    """

    def __init__(self, index: SetIndex, threshold: float) -> None:
        self.sets, self.elements = index.prefixes(threshold)
        self._ends = np.searchsorted(self.sets, np.arange(len(index) + 1)).tolist()

    def of(self, one: int) -> slice:
        """Entries of a set."""
        return slice(self._ends[one], self._ends[one + 1])


class _Lists:
    """Sets by element.

    Attributes:
        sets: int (entries,), by element, then rising.
    """

    def __init__(self, sets: Integers, elements: Integers | Small) -> None:
        order = np.argsort(elements, kind="stable")
        self.sets, self._elements = sets[order], elements[order]

    def of(self, elements: Integers | Small) -> tuple[Integers, Integers]:
        """Starts and lengths of the lists of elements."""
        starts = np.searchsorted(self._elements, elements)
        return starts, np.searchsorted(self._elements, elements, side="right") - starts


class _Groups:
    """Disjoint groups of sets.

    Attributes:
        of: Group of each set, int (n,).
    """

    def __init__(self, sets: int) -> None:
        self.of = np.arange(sets)
        self._members = [[number] for number in range(sets)]

    def join(self, one: int, other: int) -> None:
        """Join the groups of two sets; the smaller group is renamed."""
        large, small = self.of[one], self.of[other]
        if large == small:
            return
        if len(self._members[large]) < len(self._members[small]):
            large, small = small, large
        self.of[self._members[small]] = large
        self._members[large] += self._members[small]
        self._members[small] = []


def _set_before(prefixes: _Prefixes) -> Integers:
    """For each entry, the set before in the list of its element, or -1."""
    order = np.argsort(prefixes.elements, kind="stable")
    same = np.diff(prefixes.elements[order]) == 0
    before = np.full(len(order), -1)
    before[order[1:][same]] = prefixes.sets[order[:-1][same]]
    return before


def _distinct(listed: Integers, starts: Integers, lengths: Integers, every: Integers) -> Integers:
    """Distinct numbers of some lists; every number that may be in one where the lists are longer together."""
    if lengths.sum() >= len(every):
        return every
    return np.unique(listed[runs(starts, lengths)])

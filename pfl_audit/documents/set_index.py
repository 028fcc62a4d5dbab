"""Sets by their rarest elements, and their Jaccard indices with others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pfl_audit.metrics.arrays import Bools, Integers

_ROUNDING = 1e-9
_AT_ONCE = 1 << 19
"""Elements that are looked up at once."""
_WORDS = 4
"""Words of 64 bits for the most frequent elements of a set."""

Small = NDArray[np.int32]


class SetIndex:
    """Sets of numbers, the rarest element first.

    Elements of a single set are left out, since no two sets share them.

    Attributes:
        sizes: Elements of each set, int (n,), those that are left out included.
    """

    def __init__(self, sets: Iterable[Integers]) -> None:
        """Sort the elements by the number of sets that have them.

        Args:
            sets: Distinct elements of each set, int64 (size,).
        """
        parts = [np.empty(0, np.int64), *sets]
        self.sizes = np.array([len(part) for part in parts[1:]], dtype=np.int64)
        values = np.concatenate(parts)
        del parts
        owners, elements, counts = _shared(values, self.sizes)
        order = np.argsort(elements, kind="stable")
        self._owners, self._starts = owners[order], np.concatenate([[0], np.cumsum(counts)])
        self._elements = elements[np.lexsort((elements, owners))]
        self._shared = np.bincount(owners, minlength=len(self))
        self._ends = np.concatenate([[0], np.cumsum(self._shared)])
        bits = len(counts) - 1 - self._elements  # of an element that is frequent
        often = bits < 64 * _WORDS
        self._often = np.zeros((_WORDS, len(self)), dtype=np.uint64)
        places = bits[often] // 64, np.repeat(np.arange(len(self)), self._shared)[often]
        np.bitwise_or.at(self._often, places, np.uint64(1) << (bits[often] % 64).astype(np.uint64))
        self._rare = self._shared - np.bitwise_count(self._often).sum(axis=0, dtype=np.int64)
        self._marked = np.zeros(len(counts), dtype=bool)

    def __len__(self) -> int:
        return len(self.sizes)

    def prefixes(self, threshold: float) -> tuple[Integers, Small]:
        """The rarest elements of each set, of which every similar set has one among its own (prefix filter).

        Source: Bayardo, Ma and Srikant, "Scaling up all pairs similarity search", 2007.

        Returns:
            Number of the set, rising, and element, int (entries,) each.
        """
        shared = self._shared
        needed = np.ceil((threshold - _ROUNDING) * self.sizes).astype(np.int64)
        lengths = np.minimum(shared, np.maximum(0, shared - needed + 1))
        return np.repeat(np.arange(len(self)), lengths), self._elements[runs(self._ends[:-1], lengths)]

    def similar(self, one: int, others: Integers, threshold: float) -> Integers:
        """Those of the others whose Jaccard index with a set is at least ``threshold``, in their order.

        What two sets have in common is bounded by their sizes, then by their frequent elements, before it is counted.
        """
        part = (threshold - _ROUNDING) / (1 + threshold - _ROUNDING)
        needed = part * (self.sizes[one] + self.sizes[others])
        possible = np.minimum(self._shared[one], self._shared[others]) >= needed
        others, needed = others[possible], needed[possible]
        common = np.bitwise_count(self._often[:, one, None] & self._often[:, others]).sum(axis=0, dtype=np.int64)
        possible = common + np.minimum(self._rare[one], self._rare[others]) >= needed
        others, needed, common = others[possible], needed[possible], common[possible]
        common += self._rare_in_common(one, others)
        return np.asarray(others[(common > 0) & (common >= needed)])

    def _rare_in_common(self, one: int, others: Integers) -> Integers:
        """Number of elements that are not frequent in a set and each of the others, int (others,).

        Counted from the elements of the others, or from the sets that have an element of the one, whichever is less.
        """
        own = self._elements[self._ends[one] : self._ends[one] + self._rare[one]]
        starts, lengths = self._ends[others], self._rare[others]
        listed = self._starts[own + 1] - self._starts[own]
        if listed.sum() < lengths.sum():
            counted = np.bincount(self._owners[runs(self._starts[own], listed)], minlength=len(self))
            return np.asarray(counted[others])
        self._marked[own] = True
        found = [
            _sums(self._marked[self._elements[runs(starts[part], lengths[part])]], lengths[part])
            for part in _parts(lengths)
        ]
        self._marked[own] = False
        return np.concatenate(found)


def _shared(values: Integers, sizes: Integers) -> tuple[Small, Small, Integers]:
    """Elements of two sets at least, numbered from the rarest.

    Args:
        values: Elements of one set after the other.
        sizes: Size of each set.

    Returns:
        Set, rising for each element, and element, int32 (entries,) each, and the number of sets of each element.
    """
    order = np.argsort(values, kind="stable")
    values = values[order]
    new = np.append(values[:1] == values[:1], values[1:] != values[:-1])
    counts = np.diff(np.flatnonzero(np.append(new, True)))
    shared = counts > 1
    rarity = np.full(len(counts), -1, dtype=np.int32)
    rarity[np.flatnonzero(shared)[np.argsort(counts[shared], kind="stable")]] = np.arange(shared.sum())
    elements = np.repeat(rarity, counts)
    kept = elements >= 0
    owners = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[order[kept]]
    return owners, elements[kept], np.sort(counts[shared])


def runs(starts: Integers, lengths: Integers) -> Integers:
    """Whole numbers from each start on, as many as its length, one run after the other, int (sum of lengths,)."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)


def _sums(values: Bools, lengths: Integers) -> Integers:
    """Sum of each run of values."""
    totals = np.concatenate([[0], np.cumsum(values)])
    ends = np.cumsum(lengths)
    return np.asarray(totals[ends] - totals[ends - lengths])


def _parts(lengths: Integers) -> Iterator[slice]:
    """Slices of runs that are about _AT_ONCE long together."""
    cuts = np.flatnonzero(np.diff(np.cumsum(lengths) // _AT_ONCE)) + 1
    bounds = [0, *cuts.tolist(), len(lengths)]
    yield from (slice(start, end) for start, end in pairwise(bounds))

"""Every similar pair of sets, by matrix products of their incidences; and by comparing all with all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

SHINGLE = 2
"""Words per shingle: pages of one layout share words, but not the words that follow them."""
_ROUNDING = 1e-9
_CELLS = 1 << 23
"""Largest number of elements of a dense matrix."""
_OFTEN = 1 / 8
"""Share of the sets above which an element is counted by a dense product, which is then faster."""
_ROWS = 256
"""Sets that are compared at once."""

Numbers = NDArray[np.intp]


def similar_sets(sets: Sequence[AbstractSet[Hashable]], threshold: float) -> Iterator[Numbers]:
    """For each set, the indices of the other sets with a Jaccard index of at least ``threshold``.

    Exact. Two such sets share one of the rarest elements of both (prefix filter: Bayardo, Ma and Srikant, "Scaling up
    all pairs similarity search", 2007), so only sets that share one are compared, as matrix products over blocks.

    Args:
        sets: Elements of each set.
        threshold: Smallest Jaccard index, above 0, up to 1.

    Yields:
        Ascending indices; empty for an empty set.
    """
    sizes = np.array([len(elements) for elements in sets], dtype=np.float64)
    often, rare, prefixes = _incidence(sets, threshold)
    by_element = prefixes.T.tocsr()
    step = max(1, min(_ROWS, _CELLS // max(1, len(sets))))
    for start in range(0, len(sets), step):
        rows = slice(start, start + step)
        columns = np.unique((prefixes[rows] @ by_element).indices).astype(np.intp)
        common = np.asarray(often[rows] @ often[columns].T, dtype=np.float64)
        common += (rare[rows] @ rare[columns].T).toarray()
        union = sizes[rows, None] + sizes[columns] - common
        similar = (common > 0) & (common >= (threshold - _ROUNDING) * union)
        for number, row in enumerate(similar, start=start):
            found = columns[row]
            yield found[found != number]


def shingles(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    """Runs of SHINGLE words, case-folded; a shorter page is one run, an empty page has none."""
    folded = [word.casefold() for word in words]
    last = max(len(folded) - SHINGLE + 1, min(len(folded), 1))
    return frozenset(tuple(folded[at : at + SHINGLE]) for at in range(last))


def all_pairs(sets: Sequence[AbstractSet[Hashable]], threshold: float) -> list[tuple[int, int]]:
    """Numbers of the sets of each similar pair, by comparing all with all."""
    return [
        (one, other)
        for one, other in combinations(range(len(sets)), 2)
        if jaccard(sets[one], sets[other]) >= threshold - _ROUNDING
    ]


def jaccard(one: AbstractSet[Hashable], other: AbstractSet[Hashable]) -> float:
    """Jaccard index of two sets, 0 to 1; 0 for two empty ones."""
    union = len(one | other)
    return len(one & other) / union if union else 0.0


def _incidence(
    sets: Sequence[AbstractSet[Hashable]], threshold: float
) -> tuple[NDArray[np.float32], csr_array, csr_array]:
    """Incidence of sets (rows) and elements (columns): dense for frequent elements, sparse for the others; prefixes.

    Elements of a single set are left out, since no two sets share them. The prefix of a set holds as many of its
    rarest elements as every similar set must share one of.
    """
    counts = Counter(element for elements in sets for element in elements)
    shared = [element for element, count in counts.most_common() if count > 1]
    columns = {element: column for column, element in enumerate(shared)}
    most = _CELLS // max(1, len(sets))
    dense = min(most, sum(counts[element] > _OFTEN * len(sets) for element in shared))
    numbers = [sorted(columns[element] for element in elements if element in columns) for elements in sets]
    rarest = [
        row[len(row) - _rarest(len(row), len(elements), threshold) :]
        for row, elements in zip(numbers, sets, strict=True)
    ]
    whole = _rows(numbers, len(shared))
    return whole[:, :dense].toarray(), whole[:, dense:], _rows(rarest, len(shared))


def _rarest(shared: int, size: int, threshold: float) -> int:
    """How many of the ``shared`` elements of a set of ``size`` its prefix holds; it begins with those of no other."""
    return min(shared, max(0, size - ceil((threshold - _ROUNDING) * size) + 1 - (size - shared)))


def _rows(numbers: Sequence[Sequence[int]], columns: int) -> csr_array:
    ends = np.cumsum([0, *map(len, numbers)])
    flat = np.array([column for row in numbers for column in row], dtype=np.int64)
    return csr_array((np.ones(len(flat), np.float32), flat, ends), shape=(len(numbers), columns))

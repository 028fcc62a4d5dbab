"""Near-duplicate pages by the Jaccard index of their word shingles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

SHINGLE = 2
"""Words per shingle: pages of one layout share words, but not the words that follow them."""
_ROUNDING = 1e-9
_CELLS = 1 << 23
"""Largest number of elements of a dense matrix."""
_OFTEN = 1 / 8
"""Share of the pages above which a shingle is counted by a dense product, which is then faster."""

Numbers = NDArray[np.intp]


def near_duplicates(pages: Sequence[Sequence[str]], threshold: float) -> Iterator[Numbers]:
    """For each page, the indices of the pages with a Jaccard index of at least ``threshold``.

    The index is that of the shingles of SHINGLE words. All pairs of pages are compared exactly, as matrix products
    over blocks of pages.

    Args:
        pages: Words of each page; case is ignored.
        threshold: Smallest Jaccard index, above 0, up to 1.

    Yields:
        Ascending indices; empty for a page without words.
    """
    runs = [shingles(page) for page in pages]
    sizes = np.array([len(page) for page in runs], dtype=np.float64)
    often, rare = _incidence(runs)
    rare_by_run = rare.T.tocsr()
    step = max(1, _CELLS // max(1, len(pages)))
    for start in range(0, len(pages), step):
        rows = slice(start, start + step)
        common = np.asarray(often[rows] @ often.T, dtype=np.float64) + (rare[rows] @ rare_by_run).toarray()
        union = sizes[rows, None] + sizes - common
        similar = (common > 0) & (common >= (threshold - _ROUNDING) * union)
        for number, row in enumerate(similar, start=start):
            row[number] = False
            yield np.flatnonzero(row)


def shingles(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    """Runs of SHINGLE words, case-folded; a shorter page is one run, an empty page has none."""
    folded = [word.casefold() for word in words]
    last = max(len(folded) - SHINGLE + 1, min(len(folded), 1))
    return frozenset(tuple(folded[at : at + SHINGLE]) for at in range(last))


def _incidence(pages: Sequence[frozenset[tuple[str, ...]]]) -> tuple[NDArray[np.float32], csr_array]:
    """Incidence of pages (rows) and shingles (columns): dense for frequent shingles, sparse for the others.

    Shingles of a single page are left out, since no two pages share them.
    """
    counts = Counter(run for page in pages for run in page)
    shared = [run for run, count in counts.most_common() if count > 1]
    columns = {run: column for column, run in enumerate(shared)}
    most = _CELLS // max(1, len(pages))
    dense = min(most, sum(count > _OFTEN * len(pages) for run, count in counts.items() if run in columns))
    numbers = [sorted(columns[run] for run in page if run in columns) for page in pages]
    ends = np.cumsum([0, *map(len, numbers)])
    flat = np.array([column for page in numbers for column in page], dtype=np.int64)
    whole = csr_array((np.ones(len(flat), np.float32), flat, ends), shape=(len(pages), len(shared)))
    return whole[:, :dense].toarray(), whole[:, dense:]

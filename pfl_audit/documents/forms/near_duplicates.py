"""Pages that say the same but for a few words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

SHINGLE = 2
"""Words that are looked at together: pages of one layout share its words, but not what follows them."""
_ROUNDING = 1e-9
_CELLS = 1 << 23
"""Numbers of a dense matrix that is held at a time."""
_OFTEN = 1 / 8
"""Share of the pages from which a run is counted by a dense product, which is then the faster one."""

Numbers = NDArray[np.intp]


def near_duplicates(pages: Sequence[Sequence[str]], threshold: float) -> Iterator[Numbers]:
    """For each page, the numbers of the others that have a Jaccard index of ``threshold`` or more with it.

    The index is that of their runs of SHINGLE words. Exact: all pages are compared with all, as products of
    matrices, a block of pages at a time.

    Args:
        pages: Words of each page; case does not count.
        threshold: Above 0, up to 1.

    Yields:
        Rising numbers; none for a page without words.
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
        alike = (common > 0) & (common >= (threshold - _ROUNDING) * union)
        for number, row in enumerate(alike, start=start):
            row[number] = False
            yield np.flatnonzero(row)


def shingles(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    """Runs of SHINGLE words, lower-cased; a shorter page is one run, an empty one none."""
    plain = [word.casefold() for word in words]
    last = max(len(plain) - SHINGLE + 1, min(len(plain), 1))
    return frozenset(tuple(plain[at : at + SHINGLE]) for at in range(last))


def _incidence(pages: Sequence[frozenset[tuple[str, ...]]]) -> tuple[NDArray[np.float32], csr_array]:
    """Which page (row) holds which run (column): the runs that stand on many pages dense, the others sparse.

    Runs of one page alone are left out, since no two pages share them.
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

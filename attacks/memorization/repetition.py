"""Memorization by how often a value stands in the training pages: groups of members.

Repeated values are memorised more often than others (Carlini et al. 2023, *Quantifying Memorization Across Neural
Language Models*, section 3.2), and a mean over all members dilutes them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pfl_audit.metrics.arrays import Bools, Floats, Integers

STARTS: Final = (0, 1, 2, 5, 20)
"""Fewest training pages of each group."""
FEWEST: Final = 5
"""Units below which a group joins the one below it: its number would tell what the model knows of a single company."""


def groups_of(held: Floats, labels: Bools) -> tuple[dict[int, str], Integers]:
    """Groups of members by the number of training pages, those with fewest first.

    A group of fewer than FEWEST units joins the one below it, so that no number is about a few units, nor follows from
    those of the others.

    Args:
        held: Number of training pages that hold the value of each unit, float (n,); NaN where it is not known.
        labels: bool (n,), membership.

    Returns:
        Fewest training pages of each group to its range, such as "5 to 19"; none where the number is not known of all
        members, or of fewer than FEWEST. And the group of each unit, int (n,), from 1 on, with 0 for non-members.
    """
    if labels.sum() < FEWEST or np.isnan(held[labels]).any():
        return {}, labels.astype(np.int64)
    starts = list(STARTS)
    while True:
        sizes = np.histogram(held[labels], [*starts, np.inf])[0]
        small = np.flatnonzero((sizes > 0) & (sizes < FEWEST))
        if not len(small):
            break
        del starts[max(1, int(small[0]))]
    ends = [*(start - 1 for start in starts[1:]), None]
    found = {start: _range(start, end) for start, end, size in zip(starts, ends, sizes, strict=True) if size}
    return found, np.where(labels, np.searchsorted(list(found), held, side="right"), 0)


def _range(start: int, end: int | None) -> str:
    return f"{start} or more" if end is None else str(start) if end == start else f"{start} to {end}"

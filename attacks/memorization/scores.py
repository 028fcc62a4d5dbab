"""How much of what was taken off the pages comes back. Pure functions over a table of answers.

Source: privacy-aware-docvqa, section 5.1, Tables 2, 7 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pfl_audit.metrics.intervals import Estimate, bootstrap_weights, estimate, group_mean

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CONFIDENT = 0.9
"""Confidence from which the paper counts an answer separately (Table 2)."""


@dataclass(frozen=True)
class GapEstimate:
    """A score on members, on non-members, and what lies between.

    Attributes:
        members: Mean over members' pages.
        non_members: Mean over non-members' pages.
        gap: members minus non_members.
        pages: Pages of members and of non-members behind them.
    """

    members: Estimate
    non_members: Estimate
    gap: Estimate
    pages: tuple[int, int]


def score_gap(pages: pd.DataFrame, score: str, rng: np.random.Generator) -> GapEstimate | None:
    """Compare members with non-members, with intervals over resampled providers.

    Args:
        pages: One row a page: ``provider``, ``member`` (bool) and the score's column.
        score: Name of the column, values 0 to 1.
        rng: Of the bootstrap.

    Returns:
        None where one class has no page.
    """
    groups = pages.groupby("provider", sort=True)
    sums = groups[score].sum().to_numpy(dtype=np.float64)
    counts = groups.size().to_numpy(dtype=np.float64)
    members = groups["member"].first().to_numpy(dtype=bool)
    if members.all() or not members.any():
        return None
    weights = bootstrap_weights(members, rng)
    both = []
    for chosen in (members, ~members):
        mean = group_mean(sums * chosen, counts * chosen)
        value = float(mean(np.ones((1, len(sums))))[0])
        both.append((value, mean(weights)))
    (inside, inside_samples), (outside, outside_samples) = both
    return GapEstimate(
        members=estimate(inside, inside_samples),
        non_members=estimate(outside, outside_samples),
        gap=estimate(inside - outside, inside_samples - outside_samples),
        pages=(int(counts[members].sum()), int(counts[~members].sum())),
    )


def giveaway_providers(pages: pd.DataFrame) -> pd.DataFrame:
    """Providers whose every page, two at least, gave the value away; members first.

    Returns:
        ``provider``, ``member``, ``pages``.
    """
    groups = pages.groupby("provider", sort=True)
    table = pd.DataFrame({"member": groups["member"].first(), "pages": groups.size(), "acc": groups["acc"].mean()})
    found = table[(table["acc"] >= 1.0) & (table["pages"] >= 2)].reset_index()
    return found.sort_values(["member", "pages", "provider"], ascending=[False, False, True])[
        ["provider", "member", "pages"]
    ]

"""Norms of providers' updates before and after the clip: how much of what was learned the clip leaves."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

Norms = tuple[float, float]
"""L2 norm of an update before and after the clip."""


def mean_norms(norms: Sequence[Norms]) -> dict[str, float]:
    """Means before and after the clip, ``norm`` and ``clipped_norm``; nothing of no updates."""
    if not norms:
        return {}
    before, after = zip(*norms, strict=True)
    return {"norm": fmean(before), "clipped_norm": fmean(after)}

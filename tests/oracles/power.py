"""Whole tests on drawn answers: how often each finds what was put there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import hypergeom

from pfl_audit.core.power import BASE, FINDINGS, WITHIN
from pfl_audit.core.verdict import COMPARED_ATTACKS, LEAK_BUDGET

_ALPHA = LEAK_BUDGET / FINDINGS


def membership(accuracy: float, members: int, others: int, *, control: bool, draws: int = 2000) -> float:
    """Share of draws in which the exact permutation test, and the paired bootstrap against a control, find it."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(draws):
        calls = [rng.random(members) < accuracy, rng.random(others) < 1 - accuracy]
        hits, alarms = int(calls[0].sum()), int(calls[1].sum())
        p_value = hypergeom.sf(hits - 1, members + others, hits + alarms, members)
        if p_value > _ALPHA:
            continue
        if control:
            ahead = [called.astype(float) - (rng.random(len(called)) < 0.5) for called in calls]
            means = [one[rng.integers(0, len(one), size=(400, len(one)))].mean(axis=1) for one in ahead]
            if np.quantile(means[0] - means[1], COMPARED_ATTACKS) <= 0:
                continue
        found += 1
    return found / draws


def gap(size: float, members: Sequence[int], others: Sequence[int], *, draws: int = 300) -> float:
    """Share of draws in which a permutation of providers and the bootstrap bound agree at the budget."""
    rng = np.random.default_rng(0)
    pages = np.array([*members, *others], dtype=float)
    labels = np.arange(len(pages)) < len(members)
    rates = np.where(labels, BASE + size, BASE)
    drawn = rng.permuted(np.tile(labels, (3000, 1)), axis=1).astype(float)
    weights = [rng.multinomial(int(inside.sum()), inside / inside.sum(), size=3000) for inside in (labels, ~labels)]
    found = 0
    for _ in range(draws):
        sums = np.array([_answers(rng, int(number), rate) for number, rate in zip(pages, rates, strict=True)])
        observed, permuted = _gaps(labels[None].astype(float), sums, pages)[0], _gaps(drawn, sums, pages)
        if (1 + (permuted >= observed - 1e-12).sum()) / (1 + len(drawn)) > _ALPHA:
            continue
        means = [(one @ sums) / (one @ pages) for one in weights]
        found += np.quantile(means[0] - means[1], _ALPHA) > 0
    return found / draws


def _answers(rng: np.random.Generator, pages: int, rate: float) -> int:
    """Right answers of a provider: a page takes the provider's own with a chance that makes the correlation WITHIN."""
    own = rng.random() < rate
    shared = rng.random(pages) < np.sqrt(WITHIN)
    return int(np.where(shared, own, rng.random(pages) < rate).sum())


def _gaps(labels: np.ndarray, sums: np.ndarray, pages: np.ndarray) -> np.ndarray:
    inside, outside = (((one @ sums) / (one @ pages)) for one in (labels, 1 - labels))
    return np.asarray(inside - outside)

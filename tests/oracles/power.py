"""Whole tests on drawn answers: how often each finds what was put there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import mannwhitneyu, norm

from pfl_audit.core.power import BASE, FINDINGS, NAMED, WITHIN
from pfl_audit.core.verdict import LEAK_BUDGET

_ALPHA = LEAK_BUDGET / FINDINGS


def membership(area: float, members: int, others: int, *, control: bool, draws: int = 2000) -> float:
    """Share of draws of normal scores in which a rank-sum test, of the difference to a control's, finds it."""
    rng = np.random.default_rng(0)
    apart = np.sqrt(2) * norm.ppf(area)
    found = 0
    for _ in range(draws):
        inside, outside = (
            rng.normal(shift, 1, count) - (rng.normal(size=count) if control else 0)
            for shift, count in ((apart, members), (0.0, others))
        )
        found += mannwhitneyu(inside, outside, alternative="greater", method="asymptotic").pvalue <= _ALPHA / NAMED
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

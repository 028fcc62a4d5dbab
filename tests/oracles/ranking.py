"""Ranking metrics by their definitions, one pair and one threshold at a time; curves of all resamples at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def auc(scores: Sequence[float], labels: Sequence[bool], weights: Sequence[float]) -> float:
    won = total = 0.0
    for a, is_a, w_a in zip(scores, labels, weights, strict=True):
        for b, is_b, w_b in zip(scores, labels, weights, strict=True):
            if is_a and not is_b:
                won += w_a * w_b * (1.0 if a > b else 0.5 if a == b else 0.0)
                total += w_a * w_b
    return won / total


def tpr_at_fpr(scores: Sequence[float], labels: Sequence[bool], weights: Sequence[float], limit: float) -> float:
    members = sum(w for is_member, w in zip(labels, weights, strict=True) if is_member)
    others = sum(w for is_member, w in zip(labels, weights, strict=True) if not is_member)
    best = 0.0
    for threshold in [float("inf"), *scores]:
        hits = alarms = 0.0
        for score, is_member, weight in zip(scores, labels, weights, strict=True):
            if score >= threshold:
                hits, alarms = (hits + weight, alarms) if is_member else (hits, alarms + weight)
        if alarms / others <= limit + 1e-12:
            best = max(best, hits / members)
    return best


def roc_curves(scores: Floats, labels: NDArray[np.bool_], weights: Floats) -> tuple[Floats, Floats]:
    """FPR and TPR, float (resamples, points): a running sum over all providers, masked by class, of all resamples."""
    order = np.argsort(-scores, kind="stable")
    falling = scores[order]
    ends = np.append(np.flatnonzero(falling[1:] != falling[:-1]), len(falling) - 1)
    zero = np.zeros((len(weights), 1))
    fpr, tpr = (
        np.hstack([zero, counted]) / counted[:, -1:]
        for counted in (np.cumsum((weights * chosen)[:, order], axis=1)[:, ends] for chosen in (~labels, labels))
    )
    return fpr, tpr

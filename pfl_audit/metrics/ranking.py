"""How well scores tell members from non-members, with equal scores kept together.

Everywhere: ``scores`` float (n,), higher means "member"; ``labels`` bool (n,), true for members;
``weights`` float (n,) or (resamples, n), how often each provider counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class RocCurve:
    """The points that a threshold can reach, from "nobody" to "everybody".

    Attributes:
        fpr: Shares of non-members called members, float (points,), rising from 0 to 1.
        tpr: Shares of members called members, float (points,).
    """

    fpr: Floats
    tpr: Floats


def roc_curve(scores: Floats, labels: Bools) -> RocCurve:
    """Sweep a threshold over the distinct scores; providers with equal scores enter together.

    Raises:
        ValueError: One class is missing, or a score is NaN.
    """
    _check(scores, labels)
    fpr, tpr = _curves(scores, labels, np.ones((1, len(scores))))
    return RocCurve(fpr[0], tpr[0])


def auc(scores: Floats, labels: Bools, weights: Floats | None = None) -> Floats:
    """Area under the ROC curve; a pair with equal scores counts one half.

    Args:
        weights: (resamples, n); one row of ones if left out.

    Returns:
        float (resamples,); NaN where a resample lacks a class.
    """
    _check(scores, labels)
    weights = np.ones((1, len(scores))) if weights is None else weights
    fpr, tpr = _curves(scores, labels, weights)
    return np.asarray(np.trapezoid(tpr, fpr, axis=1), dtype=np.float64)


def tpr_at_fpr(scores: Floats, labels: Bools, limit: float, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Largest TPR that some threshold reaches while its FPR is at most ``limit``.

    Returns:
        TPR and the FPR that really goes with it, both float (resamples,).
    """
    _check(scores, labels)
    weights = np.ones((1, len(scores))) if weights is None else weights
    fpr, tpr = _curves(scores, labels, weights)
    last = (fpr <= limit + 1e-12).sum(axis=1) - 1
    rows = np.arange(len(fpr))
    nan = ~np.isfinite(fpr[:, -1]) | ~np.isfinite(tpr[:, -1])
    best = np.where(nan, np.nan, tpr[rows, np.maximum(last, 0)])
    return best, np.where(nan, np.nan, fpr[rows, np.maximum(last, 0)])


def resolvable(scores: Floats, labels: Bools, limit: float) -> str | None:
    """Why TPR at this FPR cannot be told, or None where it can.

    Hard labels give one point of the curve and nothing below it; and fewer than 1 / ``limit``
    non-members cannot show a share of ``limit``.
    """
    others = int((~labels).sum())
    if len(np.unique(scores)) <= 2:
        return "not resolvable: the attack gives hard labels"
    if others * limit < 1:
        return f"not resolvable: {others} non-members, {int(np.ceil(1 / limit))} are needed"
    return None


def accuracy(calls: Bools, labels: Bools, weights: Floats | None = None) -> Floats:
    """Share of right calls, float (resamples,)."""
    weights = np.ones((1, len(calls))) if weights is None else weights
    right: Floats = weights @ (calls == labels).astype(np.float64) / weights.sum(axis=1)
    return right


def balanced_accuracy(calls: Bools, labels: Bools, weights: Floats | None = None) -> Floats:
    """Mean of the shares of right calls among members and among non-members, float (resamples,).

    NaN where a resample lacks a class.
    """
    weights = np.ones((1, len(calls))) if weights is None else weights
    right = (calls == labels).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        members = weights @ (right * labels) / (weights @ labels.astype(np.float64))
        others = weights @ (right * ~labels) / (weights @ (~labels).astype(np.float64))
    both: Floats = (members + others) / 2
    return both


def _curves(scores: Floats, labels: Bools, weights: Floats) -> tuple[Floats, Floats]:
    """ROC points of every resample: (resamples, distinct scores + 1), from (0, 0) to (1, 1)."""
    distinct, group = np.unique(-scores, return_inverse=True)
    bins = np.zeros((len(scores), len(distinct)))
    bins[np.arange(len(scores)), group] = 1.0
    zero = np.zeros((len(weights), 1))
    hits = np.cumsum(np.hstack([zero, (weights * labels) @ bins]), axis=1)
    alarms = np.cumsum(np.hstack([zero, (weights * ~labels) @ bins]), axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return alarms / alarms[:, -1:], hits / hits[:, -1:]


def _check(scores: Floats, labels: Bools) -> None:
    if scores.shape != labels.shape or scores.ndim != 1:
        raise ValueError("scores and labels must be vectors of the same length")
    if not np.isfinite(scores).all():
        raise ValueError("a score is not a finite number")
    if labels.all() or not labels.any():
        raise ValueError("members and non-members are both needed")

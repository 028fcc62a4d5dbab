"""ROC curves, AUC and accuracy of membership scores; equal scores share a threshold.

Everywhere: ``scores`` float (n,), higher means "member"; ``labels`` bool (n,), true for members;
``weights`` float (n,) or (resamples, n), how often each provider counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pfl_audit.metrics.arrays import Bools, Floats, Integers, blocks


@dataclass(frozen=True)
class RocCurves:
    """The points that a threshold can reach, from "no provider" to "all", a curve a resample.

    Attributes:
        fpr: Shares of non-members called members, float (resamples, points), rising from 0 to 1; NaN where a resample
            lacks the class.
        tpr: Shares of members called members, float (resamples, points).
    """

    fpr: Floats
    tpr: Floats

    def area(self) -> Floats:
        """Area under each curve, float (resamples,); a pair with equal scores counts one half."""
        return np.asarray(np.trapezoid(self.tpr, self.fpr, axis=1), dtype=np.float64)

    def tpr_at(self, limit: float) -> tuple[Floats, Floats]:
        """Largest TPR that some threshold reaches while its FPR is at most ``limit``.

        Returns:
            TPR and the FPR that really goes with it, both float (resamples,).
        """
        last = np.maximum((self.fpr <= limit + 1e-12).sum(axis=1) - 1, 0)
        rows = np.arange(len(self.fpr))
        nan = ~np.isfinite(self.fpr[:, -1]) | ~np.isfinite(self.tpr[:, -1])
        best, real = (np.where(nan, np.nan, values[rows, last]) for values in (self.tpr, self.fpr))
        return best, real


@dataclass(frozen=True)
class Sweep:
    """A threshold that falls over the distinct scores; providers with equal scores enter together.

    Attributes:
        others: Non-members, highest score first, int (non-members,), and how many of them have entered at each point of
            the curve, int (points,), from 0.
        members: The same of the members.
    """

    others: tuple[Integers, Integers]
    members: tuple[Integers, Integers]

    def curves(self, weights: Floats) -> RocCurves:
        """The curves of resamples, a running sum over each class.

        Args:
            weights: (resamples, n).
        """
        by_provider = np.ascontiguousarray(weights.T)
        shares = []
        for order, entered in (self.others, self.members):
            counted = np.zeros((len(order) + 1, len(weights)))
            np.cumsum(by_provider.take(order, axis=0), axis=0, out=counted[1:])
            with np.errstate(invalid="ignore", divide="ignore"):
                counted /= counted[-1].copy()
            shares.append(counted.take(entered, axis=0).T)
        return RocCurves(*shares)


def sweep(scores: Floats, labels: Bools) -> Sweep:
    """Sort the providers by their scores, once for all resamples.

    Raises:
        ValueError: One class is missing, or a score is NaN.
    """
    _check(scores, labels)
    order = np.argsort(-scores, kind="stable")
    falling, members = scores[order], labels[order]
    ends = np.append(np.flatnonzero(falling[1:] != falling[:-1]), len(falling) - 1)
    return Sweep(*((order[chosen], np.append(0, np.cumsum(chosen)[ends])) for chosen in (~members, members)))


def roc_curves(scores: Floats, labels: Bools, weights: Floats | None = None) -> RocCurves:
    """ROC curves of all resamples.

    Args:
        weights: (resamples, n); one row of ones if left out.

    Raises:
        ValueError: One class is missing, or a score is NaN.
    """
    return sweep(scores, labels).curves(np.ones((1, len(scores))) if weights is None else weights)


def auc(scores: Floats, labels: Bools, weights: Floats | None = None) -> Floats:
    """Area under the ROC curve, float (resamples,); NaN where a resample lacks a class. Arguments as in roc_curves."""
    curves = sweep(scores, labels).curves
    weights = np.ones((1, len(scores))) if weights is None else weights
    return np.concatenate([curves(block).area() for block in blocks(weights)])


def resolvable(scores: Floats, labels: Bools, limit: float) -> str | None:
    """Why TPR at this FPR cannot be resolved, or None where it can.

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


def _check(scores: Floats, labels: Bools) -> None:
    if scores.shape != labels.shape or scores.ndim != 1:
        raise ValueError("scores and labels must be vectors of the same length")
    if not np.isfinite(scores).all():
        raise ValueError("a score is not a finite number")
    if labels.all() or not labels.any():
        raise ValueError("members and non-members are both needed")

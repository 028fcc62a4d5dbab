"""ROC curves, AUC and accuracy of membership scores; equal scores share a threshold.

Everywhere: ``scores`` float (n,), higher means "member"; ``labels`` bool (n,), true for members;
``weights`` float (n,) or (resamples, n), how often each provider counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pfl_audit.metrics.arrays import Bools, Floats, Integers, Scalar, blocks

_ROUNDING: Final = 1e-12
"""By which a false-positive rate may lie above a limit."""
_FEW: Final = 8
"""Points of a curve up to which a matrix product counts faster than a running sum."""


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

    def resampled(self, counts: NDArray[Scalar], limits: Sequence[float] = ()) -> tuple[Floats, list[Floats]]:
        """Area under the curve of each resample, and its TPR at each limit of the FPR; bit for bit as ``curves``.

        An area grows only where non-members enter: the other points are left out.

        Args:
            counts: float32 or float64 (n, resamples), whole numbers; two resamples at least, else the order in which
                NumPy sums is another.

        Returns:
            float (resamples,), and one such array a limit.
        """
        others, members = self.others[1], self.members[1]
        steps: Integers = np.flatnonzero(np.diff(others))
        at, before, after = others[[*steps, -1]], members[[*steps, -1]], members[steps + 1]
        tied = not np.array_equal(before[:-1], after)
        areas, rates = [], []
        for block in blocks(counts.T):
            fpr = _entered(block.T, self.others[0], at)
            tpr = _entered(block.T, self.members[0], np.append(before, after) if tied else before)
            grown = np.diff(fpr, axis=0)
            if tied:
                grown *= tpr[: len(steps)] + tpr[len(before) :]
                grown /= 2.0
            else:
                grown *= tpr[:-1]
            areas.append(grown.sum(axis=0))
            rates.append([_last_below(fpr, tpr[: len(before)], limit) for limit in limits])
        return np.concatenate(areas), [np.concatenate(part) for part in zip(*rates, strict=True)]


def _entered(counts: NDArray[Scalar], order: Integers, points: Integers) -> Floats:
    """Shares of a class that have entered at each point, float (points, resamples); NaN where a resample lacks it.

    Args:
        counts: (n, resamples), whole numbers.
        order: Rows of the class, highest score first.
        points: How many of them have entered.
    """
    shares: Floats
    if len(points) <= _FEW:
        taken = np.array([np.bincount(order[:end], minlength=len(counts)) for end in [*points, len(order)]])
        running = np.asarray(taken.astype(np.float32) @ counts, dtype=np.float64)
        shares, total = running[:-1], running[-1]
    else:
        running = np.zeros((len(order) + 1, counts.shape[1]))
        np.cumsum(counts.take(order, axis=0), axis=0, out=running[1:])
        total = running[-1].copy()
        every = np.array_equal(points, np.arange(len(running)))
        shares = running if every else running.take(points, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares /= total
    return shares


def _last_below(fpr: Floats, tpr: Floats, limit: float) -> Floats:
    """TPR at the last point whose FPR is at most the limit, float (resamples,); both float (points, resamples)."""
    most = limit + _ROUNDING
    needed = bisect_right(range(len(fpr)), most, key=lambda row: float(np.fmin.reduce(fpr[row])))
    last = np.maximum((fpr[:needed] <= most).sum(axis=0) - 1, 0)
    nan = ~np.isfinite(fpr[-1]) | ~np.isfinite(tpr[-1])
    return np.where(nan, np.nan, np.take_along_axis(tpr, last[None], axis=0)[0])


def sweep(scores: Floats, labels: Bools, rows: Integers | None = None) -> Sweep:
    """Sort the providers by their scores, once for all resamples.

    Args:
        rows: int (n,), number of each among the providers that are resampled; its place where left out.

    Raises:
        ValueError: One class is missing, or a score is NaN.
    """
    _check(scores, labels)
    order = np.argsort(-scores, kind="stable")
    falling, members = scores[order], labels[order]
    ends = np.append(np.flatnonzero(falling[1:] != falling[:-1]), len(falling) - 1)
    named = order if rows is None else rows[order]
    return Sweep(*((named[chosen], np.append(0, np.cumsum(chosen)[ends])) for chosen in (~members, members)))


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
    found = sweep(scores, labels)
    if weights is None or len(weights) == 1:
        return found.curves(np.ones((1, len(scores))) if weights is None else weights).area()
    return found.resampled(weights.T)[0]


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
    return weights @ (calls == labels).astype(np.float64) / weights.sum(axis=1)


def balanced_accuracy(calls: Bools, labels: Bools, weights: Floats | None = None) -> Floats:
    """Mean of the shares of right calls among members and among non-members, float (resamples,).

    NaN where a resample lacks a class.
    """
    weights = np.ones((1, len(calls))) if weights is None else weights
    right = (calls == labels).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        members = weights @ (right * labels) / (weights @ labels.astype(np.float64))
        others = weights @ (right * ~labels) / (weights @ (~labels).astype(np.float64))
    return (members + others) / 2


def right_calls(calls: Bools, labels: Bools, rows: Integers, counts: NDArray[Scalar]) -> tuple[Floats, Floats]:
    """Accuracy and balanced accuracy of each resample, float (resamples,), bit for bit as the functions of that name.

    Args:
        rows: int (n,), number of each among the providers that are resampled.
        counts: float32 or float64 (providers, resamples), whole numbers whose sum is below 2**24.
    """
    chosen = np.zeros((4, len(counts)), dtype=counts.dtype)
    right = calls == labels
    chosen[:, rows] = [right & labels, labels, right & ~labels, ~labels]
    found, members, right_others, others = (chosen @ counts).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        balanced: Floats = (found / members + right_others / others) / 2
        every: Floats = (found + right_others) / (members + others)
    return every, balanced


def _check(scores: Floats, labels: Bools) -> None:
    if scores.shape != labels.shape or scores.ndim != 1:
        raise ValueError("scores and labels must be vectors of the same length")
    if not np.isfinite(scores).all():
        raise ValueError("a score is not a finite number")
    if labels.all() or not labels.any():
        raise ValueError("members and non-members are both needed")

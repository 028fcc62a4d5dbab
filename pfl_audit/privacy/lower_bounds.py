"""Lower bounds of epsilon from one run with canaries, valid if the guesses depend on each other.

Each of m canaries is in the training data by a fair coin of its own. An attack makes r guesses of coins, and v of them
are correct. r is fixed before the run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binom

from pfl_audit.errors import UsageError

Floats = NDArray[np.float64]
TradeOff = Callable[[Floats], Floats]
"""Largest TPR of an attack on the membership of one canary at each FPR, float (n,), or an upper bound of it."""

ERROR = 0.05
"""Default probability that a lower bound is too high."""
POWER = 0.8
"""Share of runs that find the deviation that a test is stated to find."""
_REACH, _STEPS = 36.0, 7200
"""Range of the logits of FPRs, and number of steps in it; a step of 0.01 costs at most as much of epsilon."""
_WIDTH = 1e-4
"""Relative width at which a bisection ends; it returns the lower end."""


@dataclass(frozen=True)
class Guesses:
    """Result of an attack on canaries.

    Attributes:
        canaries: m, at least 1.
        made: r, number of guesses, at most m.
        correct: v, number of correct guesses, at most r.
    """

    canaries: int
    made: int
    correct: int

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= self.made <= self.canaries or not self.canaries:
            raise UsageError(
                f"{self.correct} correct of {self.made} guesses of {self.canaries} canaries cannot be",
                "Give at most as many guesses as canaries, and at most as many correct ones as guesses",
            )


class Mechanism(Protocol):
    """A mechanism with a known trade-off curve."""

    def trade_off(self, fprs: Floats) -> Floats:
        """Largest TPR at each FPR, float (n,)."""

    def epsilon(self, delta: float) -> float:
        """Epsilon at a delta."""


def p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    """Largest probability of so many correct guesses if each canary has (epsilon, delta)-differential privacy.

    Source: Steinke, Nasr and Jagielski 2023, "Privacy Auditing with One (1) Training Run", theorem 5.2. The binomial
    distribution dominates the number of correct guesses, however they depend on each other.

    Args:
        guesses: Result of the attack.
        epsilon: At least 0.
        delta: From 0 to 1, for adding or removing one canary.
    """
    correct = binom(guesses.made, expit(epsilon))
    tail = float(correct.sf(guesses.correct - 1))
    if not delta or not guesses.correct:
        return min(tail, 1.0)
    below = np.cumsum(correct.pmf(np.arange(guesses.correct - 1, -1, -1)))
    slope = float(np.max(2 * below / np.arange(1, guesses.correct + 1)))
    return min(tail + slope * guesses.canaries * delta, 1.0)


def epsilon_lower_bound(guesses: Guesses, delta: float, error: float = ERROR) -> float:
    """Lower bound of epsilon at ``delta``, too high with probability at most ``error``; at least 0 (theorem 5.2)."""
    return _largest(lambda epsilon: p_value(guesses, epsilon, delta) <= error)


def contradicts(trade_off: TradeOff, guesses: Guesses, error: float = ERROR) -> bool:
    """Whether so many correct guesses have a probability of at most ``error`` under a trade-off curve.

    Source: Mahloujifar, Melis and Chaudhuri 2024, "Auditing f-Differential Privacy in One Run" (arXiv 2410.22235), the
    theorem for bounded guesses, with coins (k = 2), and its recursion. For the number N of correct guesses, the concave
    curve F and every i: E[N; N >= i] / m <= F(E[r - N; N >= i - 1] / m). If N >= v has the probability ``error``, the
    least probability of N >= i - 1 follows from that of N >= i, from v down; above 1 it contradicts the curve.

    Args:
        trade_off: Largest TPR at each FPR for one canary; an upper bound is valid.
        guesses: Result of the attack. The number of guesses is fixed before the run.
        error: Probability that a mechanism with this curve is contradicted, above 0 and below 1.
    """
    fprs, tprs = _both_directions(trade_off)
    m, r, v = guesses.canaries, guesses.made, guesses.correct
    right, wrong = error * v / m, error * (r - v) / m
    for i in range(v - 1, -1, -1):
        least = max(wrong, float(np.interp(right, tprs, fprs)))
        right, wrong = right + i / (r - i) * (least - wrong), least
        if right + wrong > r / m:
            return True
    return False


def mechanism_lower_bound(
    family: Callable[[float], Mechanism], guesses: Guesses, delta: float, error: float = ERROR
) -> float:
    """Lower bound of epsilon within a family of mechanisms, too high with probability at most ``error``.

    Args:
        family: Mechanism of a strength above 0; larger strengths reveal more, such as 1 / sigma.
        guesses: Result of the attack.
        delta: Delta of the epsilon that is returned.
        error: Probability that the bound is too high, if the mechanism is one of the family.

    Returns:
        Epsilon of the largest strength that the guesses contradict; 0 if none is contradicted.
    """
    strength = _largest(lambda strength: contradicts(family(strength).trade_off, guesses, error))
    return family(strength).epsilon(delta) if strength else 0.0


def detectable_share(guesses: Guesses, rejected: Callable[[Guesses], bool]) -> float | None:
    """Share of correct guesses that a test finds in ``POWER`` of the runs, if guesses are independent.

    Args:
        guesses: Numbers of canaries and guesses; how many are correct is ignored.
        rejected: True for correct guesses that the test rejects, and for more.

    Returns:
        The share, None if not even correct guesses alone are rejected.
    """
    made = guesses.made
    critical = bisect_left(range(made + 1), True, key=lambda correct: rejected(replace(guesses, correct=correct)))
    if critical > made:
        return None
    return float(brentq(lambda share: binom.sf(critical - 1, made, share) - POWER, 0.0, 1.0))


def _both_directions(trade_off: TradeOff) -> tuple[Floats, Floats]:
    """Knots of an upper bound of the curve that holds for guesses of both kinds, float (2 n,) each.

    Half of the canaries are in, and their curve is ``trade_off``; half are out, and theirs is its mirror image. The sum
    over both has the largest TPR for a mean FPR where the slopes are equal: the segments of both curves in the order of
    their slopes, which is concave in any case. A knot has the TPR of the next FPR, so that rounding to the grid is on
    the safe side.
    """
    grid = expit(np.linspace(-_REACH, _REACH, _STEPS + 1))
    fprs = np.concatenate([[0.0, 0.0], grid])
    tprs = np.concatenate([[0.0], np.clip(trade_off(grid), grid, 1.0), [1.0]])
    across, up = np.diff(fprs, append=1.0), np.diff(tprs, append=1.0)
    up = np.maximum(up, 0.0)
    order = np.argsort(-np.arctan2(np.concatenate([up, across]), np.concatenate([across, up])), kind="stable")
    across, up = np.concatenate([across, up])[order] / 2, np.concatenate([up, across])[order] / 2
    return np.cumsum(across), np.cumsum(up)


def _largest(rejected: Callable[[float], bool]) -> float:
    """Largest value of at least 0 that is rejected, by doubling and bisection; 0 if none is."""
    low, high = 0.0, 1.0
    while rejected(high):
        low, high = high, 2 * high
    while high - low > _WIDTH * max(high, 1e-3):
        middle = (low + high) / 2
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low

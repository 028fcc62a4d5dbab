"""Largest chance of reconstruction that a guarantee of differential privacy allows.

An attacker who guesses a value with probability k from a model that was trained without it guesses it with probability
1 - f(k) at most from one that was trained with it, where f is the trade-off function of the mechanism: a correct guess
is an event, and no event gains more. Sources: Balle, Cherubin and Hayes 2022, "Reconstructing training data with
informed adversaries"; Hayes, Mahloujifar and Balle 2023, "Bounding training data reconstruction in DP-SGD", whose
blow-up function this is.
"""

from __future__ import annotations

import math

import numpy as np

from pfl_audit.privacy.lower_bounds import TradeOff


def largest_reconstruction(trade_off: TradeOff, prior: float) -> float:
    """Largest chance to guess a value from the model.

    Args:
        trade_off: Largest TPR of a membership attack at each FPR, for the unit that holds the value: one minus the
            trade-off function. An upper bound is valid.
        prior: Chance to guess it from a model that was trained without the unit, 0 to 1; with k guesses, that one of
            them is right.

    Raises:
        ValueError: The prior is not a probability.
    """
    _check(prior)
    return max(prior, min(1.0, float(trade_off(np.array([prior]))[0])))


def largest_by_epsilon(epsilon: float, delta: float, prior: float) -> float:
    """The same where only epsilon and delta are known: ``exp(epsilon) prior + delta``, 1 at most.

    With epsilon 8 this is 1 for every prior above 1 in 2,981, and says nothing.

    Raises:
        ValueError: The prior is not a probability.
    """
    _check(prior)
    if not prior:
        return delta
    return min(1.0, math.exp(min(epsilon + math.log(prior), 0.0)) + delta)


def _check(prior: float) -> None:
    if not 0.0 <= prior <= 1.0:
        raise ValueError("a prior must be 0 to 1")

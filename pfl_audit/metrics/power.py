"""Power of a test at an effect, and the smallest effect that it finds."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Final

import numpy as np
from scipy.special import ndtr, ndtri

POWER: Final = 0.8
"""Share of audits that would find an effect of the stated size."""
_STEPS: Final = 2000
_HALVINGS: Final = 30
_TINY: Final = 1e-12


def smallest_effect(critical: float, deviation: float, power: float = POWER) -> float:
    """Smallest true effect that a one-sided test finds with probability ``power``.

    The statistic is taken as normal around the true effect.

    Args:
        critical: Value above which the test is significant.
        deviation: Standard deviation of the statistic.
        power: Power of the test.

    Returns:
        float, in the unit of the statistic.
    """
    return critical + NormalDist().inv_cdf(power) * deviation


def power_at(
    effect: float, critical: float, deviation: float, control: float | None = None, level: float = 0.05
) -> float:
    """Probability that a one-sided test finds an effect.

    The statistic is taken as normal around the effect. With a control, it must also lie above what the control shows:
    the control's statistic is normal around zero and independent, and the difference must be significant, too.

    Args:
        effect: True value of the statistic.
        critical: Value above which the test is significant.
        deviation: Standard deviation of the statistic.
        control: Standard deviation of the control's statistic, or None where there is no control.
        level: One-sided level of the difference.

    Returns:
        float, 0 to 1.
    """
    below = float(ndtr((critical - effect) / max(deviation, _TINY)))
    if control is None:
        return 1 - below
    # The statistic, given that it is significant, at evenly spaced quantiles.
    quantiles = below + (1 - below) * (np.arange(_STEPS) + 0.5) / _STEPS
    statistic = effect + deviation * ndtri(np.clip(quantiles, _TINY, 1 - _TINY))
    needed = NormalDist().inv_cdf(1 - level) * np.hypot(deviation, control)
    return (1 - below) * float(ndtr((statistic - needed) / max(control, _TINY)).mean())


def effect_found(power_of: Callable[[float], float], largest: float, power: float = POWER) -> float:
    """Smallest effect that a test finds with probability ``power``, by bisection.

    Args:
        power_of: Power at an effect, not falling.
        largest: Largest effect that there can be.
        power: Wanted.

    Returns:
        float, above 0 and at most ``largest``; NaN where even ``largest`` is found less often.
    """
    low, high = 0.0, largest
    if power_of(high) < power:
        return float("nan")
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if power_of(middle) >= power else (middle, high)
    return high

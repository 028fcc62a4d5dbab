"""What a test would have found: the effect that "no evidence" excludes."""

from __future__ import annotations

from statistics import NormalDist
from typing import Final

POWER: Final = 0.8
"""Share of audits that would find an effect of the stated size."""


def smallest_effect(critical: float, deviation: float, power: float = POWER) -> float:
    """Smallest true effect that a one-sided test finds with probability ``power``.

    The statistic is taken as normal around the true effect.

    Args:
        critical: Value above which the test is significant.
        deviation: Standard deviation of the statistic.
        power: Of the test.

    Returns:
        float, in the unit of the statistic.
    """
    return critical + NormalDist().inv_cdf(power) * deviation


def critical_of_interval(deviation: float, alpha: float) -> float:
    """Value above which a one-sided interval at ``alpha`` leaves zero out."""
    return NormalDist().inv_cdf(1 - alpha) * deviation

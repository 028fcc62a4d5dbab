"""How numbers become steps in a secure sum; the server and every client must agree."""

from __future__ import annotations

import math

from pfl_audit.training.federated.flower.round_config import RoundConfig
from pfl_audit.training.federated.settings import PrivacySettings

_PLAIN_SPAN = 8.0
_SIGMAS = 8.0
"""A share of the noise stays within as many standard deviations but for one in 10^15 coordinates."""
_MOST_BITS = 26


def span(order: RoundConfig, privacy: PrivacySettings | None) -> float:
    """Largest value of a coordinate that can be sent; the same for the server and every client."""
    if privacy is None:
        return _PLAIN_SPAN
    return privacy.clip * (1.0 + _SIGMAS * order.sigma / math.sqrt(order.participants))


def levels(participants: int) -> int:
    """Steps between -span and span. Their sum over all participants must stay below 2³²."""
    return 1 << min(_MOST_BITS, 32 - participants.bit_length())

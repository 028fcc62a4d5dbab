"""Privacy cost of rounding every client's noisy message before a secure sum."""

from __future__ import annotations

from math import exp, log1p, pi, sqrt
from typing import Final

SIGMAS: Final = 8.0
"""A share of the noise stays within as many standard deviations but for one in 10^15 coordinates."""
MOST_NUMBERS: Final = 1 << 28
"""Most numbers of a message: one of 8 bytes each must stay below 2 GiB."""


def levels(participants: int) -> int:
    """Steps of the grid between the largest and the smallest coordinate; sums of so many must stay below 2³²."""
    return 1 << min(26, 32 - participants.bit_length())


def reach(multiplier: float, participants: int) -> float:
    """Largest coordinate that a client sends, in clipping norms; it refuses larger ones."""
    return 1.0 + SIGMAS * multiplier / sqrt(participants)


def rounding_loss(multiplier: float, clients: int) -> float:
    """Largest privacy loss that a round of a secure sum adds to that of the Gaussian mechanism, in nats.

    A client sends its sum x plus noise of variance s² = sigma² C² / K, rounded at random to a grid of width w: added to
    uniform numbers of this width, that is, and taken at a point of the grid. Given these numbers, the sum over two
    clients of Gaussians at points of the grid is a Gaussian of the sum of variances times 1 + e, with |e| at most
    2 x / (1 - x) for x = exp(-2 pi² c² / w²), 1 / c² the sum of both 1 / variance (Poisson summation; compare Kairouz,
    Liu and Steinke 2021, "The Distributed Discrete Gaussian Mechanism", theorem 11). Client after client, the sum is
    the Gaussian mechanism plus uniform numbers that no data enters, at points of the grid, up to these factors: they
    bound the ratio of two probabilities once above and once below.

    Args:
        multiplier: sigma, of the whole noise.
        clients: Number K of clients; with fewer in a round the loss is smaller.

    Returns:
        At least 0, infinite where the grid is too coarse for the bound.
    """
    ratio = multiplier / sqrt(clients) * levels(clients) / (2 * reach(multiplier, clients))
    loss = 0.0
    for summed in range(1, clients):
        x = exp(-2 * (pi * ratio) ** 2 * summed / (summed + 1))
        error = 2 * x / (1 - x) if x < 1 / 3 else 1.0
        if error >= 1:
            return float("inf")
        loss += log1p(error) - log1p(-error)
    return MOST_NUMBERS * loss

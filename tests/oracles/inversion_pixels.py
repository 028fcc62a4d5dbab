"""Priors and gradient distances, pixel by pixel and entry by entry, straight from the equations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

Page = NDArray[np.float64]
"""(channels, height, width)."""
Mask = NDArray[np.bool_]


def visual_text(page: Page, mask: Mask) -> float:
    """Mean of |4 times a pixel less its four neighbours|."""
    found = [
        4 * page[at] - sum(_at(page, at, down, right) for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)))
        for at in _inside(page, mask)
    ]
    return float(np.mean(np.abs(found)))


def gaussian(page: Page, mask: Mask) -> float:
    """Mean of |what 25 pixels average to, weighted by a bell, less the pixel|."""
    reach = range(-2, 3)
    bell = {(down, right): exp(-(down**2 + right**2) / 2) for down in reach for right in reach}
    total = sum(bell.values())
    found = [
        sum(weight / total * _at(page, at, *step) for step, weight in bell.items()) - page[at]
        for at in _inside(page, mask)
    ]
    return float(np.mean(np.abs(found)))


def spatial_variation(page: Page, mask: Mask) -> float:
    """Mean difference of vertical neighbours and of horizontal ones, where either is inside."""
    channels, height, width = page.shape
    total = 0.0
    for down, right in ((1, 0), (0, 1)):
        found = [
            abs(page[channel, y + down, x + right] - page[channel, y, x])
            for channel in range(channels)
            for y in range(height - down)
            for x in range(width - right)
            if mask[y, x] or mask[y + down, x + right]
        ]
        total += sum(found) / len(found)
    return total


def channel_variation(page: Page, mask: Mask) -> float:
    """Mean difference of red and green, of green and blue, and of blue and red, added."""
    places = [tuple(place) for place in np.argwhere(mask)]
    return sum(
        float(np.mean([abs(page[one][place] - page[other][place]) for place in places]))
        for one, other in ((0, 1), (1, 2), (2, 0))
    )


def apart(match: str, parts: Sequence[Sequence[float]], target: Sequence[Sequence[float]], patches: int) -> float:
    """The distance called ``match`` between tensors as flat rows of numbers."""
    if match in ("relative", "layered"):
        weights = [1 / (_dot(goal, goal) if match == "relative" else len(goal)) for goal in target]
        along = sum(w * _dot(one, other) for w, one, other in zip(weights, parts, target, strict=True))
        factor = along / sum(w * _dot(one, one) for w, one in zip(weights, parts, strict=True))
        parts = [[(factor if factor > 0 else 1) * a for a in one] for one in parts]
    errors = [
        sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) for one, other in zip(parts, target, strict=True)
    ]
    if match == "relative":
        return sum(error / _dot(goal, goal) for error, goal in zip(errors, target, strict=True)) / len(parts)
    if match == "layered":
        means = [error / len(goal) for error, goal in zip(errors, target, strict=True)]
        return sum(means) + sum(1 - _cosine(one, other) for one, other in zip(parts, target, strict=True))
    if match == "cosine":
        return 1 - _cosine([a for one in parts for a in one], [b for one in target for b in one])
    turned = 1 - _cosine(parts[patches], target[patches]) if match == "april" else 0.0
    return sum(errors) + turned


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return _dot(one, other) / sqrt(_dot(one, one) * _dot(other, other))


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _inside(page: Page, mask: Mask) -> Iterator[tuple[int, int, int]]:
    return ((channel, int(y), int(x)) for channel in range(len(page)) for y, x in np.argwhere(mask))


def _at(page: Page, place: tuple[int, int, int], down: int, right: int) -> float:
    """A pixel's neighbour; beyond its edge a page goes on as it ends."""
    channel, y, x = place
    _, height, width = page.shape
    return float(page[channel, min(max(y + down, 0), height - 1), min(max(x + right, 0), width - 1)])

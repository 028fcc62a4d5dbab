"""Sliced Wasserstein distance between two classes of points, with its permutation test.

Sources: Bonneel, Rabin, Peyré and Pfister, "Sliced and Radon Wasserstein barycenters of measures" (2015); as a
measure of how far members and non-members are from identically distributed: Zhu et al. (2504.18349).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pfl_audit.metrics.arrays import Bools, Floats

DIRECTIONS: Final = 64
"""Random directions that the points are projected onto."""
_ELEMENTS: Final = 1 << 22
"""Largest number of elements of an array."""
_TINY: Final = 1e-12


@dataclass(frozen=True)
class Distance:
    """Distance between two classes.

    Attributes:
        value: Mean over the directions of the Wasserstein distance of order one, in standard deviations of the points.
        chance: Mean distance of permuted classes.
        p_value: Share of permuted classes that are as far apart, at least 1 / (permutations + 1).
    """

    value: float
    chance: float
    p_value: float


def class_distance(points: Floats, labels: Bools, rng: np.random.Generator, permutations: int) -> Distance:
    """Distance between members and non-members, and what random classes of the same sizes give.

    Args:
        points: float (n, d), one row a unit; scaled so that the mean squared distance to their centre is one.
        labels: bool (n,), both classes.
        rng: Draws the directions and the permutations.
    """
    centred = points - points.mean(axis=0)
    scaled = centred / max(float(np.sqrt((centred**2).sum(axis=1).mean())), _TINY)
    directions = rng.normal(size=(DIRECTIONS, points.shape[1]))
    directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), _TINY)
    drawn = rng.permuted(np.tile(labels, (permutations, 1)), axis=1)
    found = sliced_wasserstein(scaled, np.vstack([labels, drawn]), directions)
    reached = int((found[1:] >= found[0] - _TINY).sum())
    return Distance(float(found[0]), float(found[1:].mean()), (1 + reached) / (1 + permutations))


def sliced_wasserstein(points: Floats, labels: Bools, directions: Floats) -> Floats:
    """Mean over directions of the area between the distribution functions of the projected classes.

    Args:
        points: float (n, d).
        labels: bool (labellings, n), both classes in each.
        directions: float (directions, d), of length one.

    Returns:
        float (labellings,).
    """
    projected = directions @ points.T
    order = np.argsort(projected, axis=1)
    gaps = np.diff(np.take_along_axis(projected, order, axis=1), axis=1)
    below = np.arange(1, points.shape[0])
    found = np.empty(len(labels))
    step = max(1, _ELEMENTS // max(1, order.size))
    for start in range(0, len(labels), step):
        rows = labels[start : start + step]
        members = rows.sum(axis=1)[:, None, None]
        others = points.shape[0] - members
        inside = np.cumsum(rows[:, order], axis=2)[:, :, :-1]
        difference = np.abs(inside / members - (below - inside) / others)
        found[start : start + step] = (difference * gaps).sum(axis=2).mean(axis=1)
    return found


def principal_components(values: Floats, components: int) -> Floats:
    """Points in the directions in which they vary most, float (n, at most ``components``).

    Args:
        values: float (n, d).
    """
    centred = values - values.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    return (left * sizes)[:, :components]

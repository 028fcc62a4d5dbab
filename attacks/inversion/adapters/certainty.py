"""Which vectors of an explanation have no alternative, and which may be errors.

Without one of its vectors an explanation leaves a single direction of the rows. Another vector in its place leaves what
it does not have in that direction. A vector is certain if every other one leaves several times as much as errors are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.adapters.pursuit import Explained
from pfl_audit.metrics.arrays import Bools, Floats

_APART: Final = 2.0
"""Times the largest singular value of errors that every other vector must leave."""
_ROUNDED: Final = 1e-12
"""Share of a squared length that double precision leaves where all of it is taken."""
_BLOCK: Final = 4096
"""Vectors that are compared at a time."""


def certain(rows: Floats, dictionary: Floats, found: Explained, edge: float) -> tuple[Bools, Bools]:
    """Test each vector of an explanation that ends at errors.

    Args:
        rows: As of ``pursue``.
        dictionary: As of ``pursue``.
        found: The explanation.
        edge: As of ``pursue``.

    Returns:
        Certain ones, and those that no errors are as strong as, bool (n,) each, in the order of ``found.chosen``; none
        where the explanation does not end at errors.
    """
    count = len(found.chosen)
    if not count or not found.ends:
        return np.zeros(count, bool), np.zeros(count, bool)
    own = dictionary[found.chosen]
    # Dual vectors: what each vector has outside of all others of the explanation.
    alone = np.linalg.pinv(own)
    alone /= np.linalg.norm(alone, axis=0)
    strengths = np.linalg.norm(rows @ alone, axis=0)
    nearest = np.zeros(count)
    for first in range(0, len(dictionary), _BLOCK):
        block = dictionary[first : first + _BLOCK]
        whole = np.square(block).sum(axis=1)
        beside = _above(whole - np.square(block @ found.directions.T).sum(axis=1), whole)
        along = _above(np.square(block @ alone), whole[:, None])
        share = along / np.maximum(beside[:, None] + along, 1e-300)
        numbers = found.chosen - first
        share[numbers[(numbers >= 0) & (numbers < len(block))]] = 0.0
        nearest = np.maximum(nearest, share.max(axis=0))
    left = strengths * np.sqrt(1 - np.minimum(nearest, 1.0))
    return left > _APART * edge, strengths > _APART * edge


def _above(part: Floats, whole: Floats) -> Floats:
    """Squared lengths, zero where they are no more than rounding of the whole ones."""
    return np.where(part > _ROUNDED * whole, part, 0.0)

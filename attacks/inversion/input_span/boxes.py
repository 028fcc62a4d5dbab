"""Boxes of all words, by the span of the spatial matcher's gradient.

Its inputs are LayerNorms of sums of four rows of the tables of coordinates. Candidates are all boxes made of the
coordinates that were found; of some hundred million few are written out: what a test needs are squared lengths of sums
of two parts, one of left and right and one of upper and lower edges, which come from products of two small matrices, in
few random directions first where the levels are far enough apart for their errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.input_span.basis import Basis
from pfl_audit.attacks.inversion.input_span.gap import Apart, first_apart
from pfl_audit.attacks.inversion.input_span.inputs import InputParts
from pfl_audit.metrics.arrays import Floats, Integers

_BLOCK: Final = 1 << 20
"""Candidates of one block."""
_PART: Final = 1 << 14
"""Candidates that are tested in all directions at a time."""
_NULL: Final = 256
"""Random boxes beside a known one."""
_SKETCH: Final = 32
"""Random directions in which all candidates are compared; only those that come near are tested in all directions."""
_NEAR: Final = 0.7
"""Times the level of wrong boxes up to which a box is near in these directions."""
_FAR: Final = 8.0
"""Times the level of known inputs from which on wrong boxes are so far that few directions tell them apart.

The root of a ratio of two sums of 32 squares is off by 18 %, four times which is a factor of two, and inputs are up to
1.5 times as far outside as the known ones.
"""


@dataclass(frozen=True, eq=False)
class Found:
    """Boxes in a span.

    Attributes:
        boxes: int64 (n, 4), in order.
        apart: The levels of the test.
    """

    boxes: Integers
    apart: Apart


def boxes_in(
    bases: Sequence[Basis],
    parts: InputParts,
    edges: tuple[Integers, Integers],
    listed: Integers,
    known: Integers,
    rng: np.random.Generator,
    *,
    lower: bool = True,
) -> Found:
    """Test all boxes of coordinates.

    Args:
        bases: Spans of the spatial matcher's inputs.
        edges: Coordinates that left and right edges may have, int64 (n,), and those that upper and lower ones may.
        listed: int64 (m, 4), other boxes to test.
        known: int64 (k, 4), boxes that every sample has; tested as well.
        rng: Generator of the random boxes.
        lower: As of ``Apart``.
    """
    wide, high = _ordered(edges[0]), _ordered(edges[1])
    listed = np.concatenate([known, listed])
    sure = parts.placed(known)
    chance = np.stack([parts.placed(_of_chance(parts, box, edges, rng)) for box in known])
    basis, apart = first_apart(bases, sure, chance, len(wide) * len(high) + len(listed), lower=lower)
    if not apart.separated:
        return Found(known[:0], apart)
    near, excess = [listed], [basis.excess_of(parts.placed(listed))]
    sketched = apart.low > _FAR * apart.high
    lengths = _Lengths(basis, parts, rng if sketched else None)
    most = _NEAR * apart.low if sketched else apart.low
    step = max(1, _BLOCK // max(len(high), 1))
    for first in range(0, len(wide), step):
        rows, columns = np.nonzero(lengths.excess(wide[first : first + step], high) < most)
        for at in range(0, len(rows), _PART):
            across, down = wide[first + rows[at : at + _PART]], high[columns[at : at + _PART]]
            some = np.stack([across[:, 0], down[:, 0], across[:, 1], down[:, 1]], axis=1)
            found = basis.excess_of(parts.placed(some))
            near.append(some[found < apart.low])
            excess.append(found[found < apart.low])
    values = np.concatenate(excess)
    return Found(np.unique(np.concatenate(near)[values <= apart.cut(values)], axis=0), apart)


def _ordered(coordinates: Integers) -> Integers:
    """Pairs of a lower and an upper edge, int64 (pairs, 2)."""
    low, high = np.triu_indices(len(coordinates))
    ordered = np.sort(coordinates)
    return np.stack([ordered[low], ordered[high]], axis=1)


def _of_chance(
    parts: InputParts, known: Integers, edges: tuple[Integers, Integers], rng: np.random.Generator
) -> Integers:
    """A known box, int64 (4,), with one edge moved to a coordinate that occurs nowhere, int64 (_NULL, 4)."""
    boxes = np.tile(known, (_NULL, 1))
    tables = (parts.across, parts.down)
    free = [np.setdiff1d(np.arange(len(table)), used) for table, used in zip(tables, edges, strict=True)]
    for box in boxes:
        edge = int(rng.integers(4))
        if len(free[edge % 2]):
            box[edge] = rng.choice(free[edge % 2])
    return boxes


class _Lengths:
    """Excess of boxes, by products.

    Args:
        rng: Generator of few random directions (Johnson and Lindenstrauss, 1984); None for all directions.
    """

    def __init__(self, basis: Basis, parts: InputParts, rng: np.random.Generator | None) -> None:
        self._basis, self._parts, every = basis, parts, np.eye(len(basis.scales))
        self._maps = [feature(every) for feature in (basis.beside, basis.turned)]
        if rng is not None:
            self._maps = [
                each @ (rng.standard_normal((each.shape[1], _SKETCH)) / np.sqrt(_SKETCH)) for each in self._maps
            ]

    def excess(self, wide: Integers, high: Integers) -> Floats:
        """Of all boxes of a pair of each, float64 (len(wide), len(high))."""
        parts = self._parts
        sideways, upright = parts.across[wide].sum(axis=1), parts.down[high].sum(axis=1)
        spread: Floats | None = None
        if parts.shift.any():  # else it changes the length of vectors alone
            spread = np.sqrt(_squares(sideways, upright) / len(parts.shift) + parts.epsilon)
        vectors = (parts.gain * sideways, parts.gain * upright)
        beside, turned = (
            _squares(vectors[0] @ each, vectors[1] @ each, spread, parts.shift @ each) for each in self._maps
        )
        return self._basis.excess(beside, turned)


def _squares(left: Floats, right: Floats, spread: Floats | None = None, shift: Floats | None = None) -> Floats:
    """Squared length of (left_i + right_j) / spread_ij + shift, float64 (n, m)."""
    square = 2 * left @ right.T
    square += np.square(left).sum(axis=1)[:, None]
    square += np.square(right).sum(axis=1)[None]
    if spread is None or shift is None:
        return np.asarray(square)
    along = (left @ shift)[:, None] + (right @ shift)[None]
    return np.asarray(square / spread**2 + 2 * along / spread + shift @ shift)

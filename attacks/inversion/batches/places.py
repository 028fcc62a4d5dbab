"""Which tokens can stand at which positions in which boxes, by the span of the first attention's inputs.

LayerNorm changes the length of a sum and adds multiples of its own vectors. Outside the span of the inputs and of these
vectors a true place is zero. A sum is linear in two parts, token with position and type, and the box: all pairs of
parts are compared in few random directions, and those that come near are tested whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.batches.inputs import BOX, POSITION, TextInputs, edges_of
from pfl_audit.attacks.inversion.input_span.basis import Basis
from pfl_audit.attacks.inversion.input_span.gap import Apart, first_apart
from pfl_audit.attacks.inversion.matrices.features import Outside
from pfl_audit.metrics.arrays import Bools, Floats, Integers

MOST: Final = 2e10
"""Places that are tested at the most; about a minute."""
MOST_PARTS: Final = 1 << 22
"""Tokens at positions, and boxes, that are held at the most: some 500 bytes each."""
_NULL: Final = 256
"""Random places."""
_SKETCH: Final = 32
"""Random directions in which all places are compared (Johnson and Lindenstrauss, 1984)."""
_NEAR: Final = 0.3
"""Share of the length of random places outside the span, up to which a place is near in these directions."""
_BLOCK: Final = 1 << 24
"""Pairs of one block."""
_PART: Final = 1 << 13
"""Places that are tested in all directions at a time."""
_SAME: Final = 1e-9
"""Share of the largest singular value below which vectors are combinations of others."""
_ALONE: Final = 1 - 1e-6
"""Leverage from which on a place is no combination of others."""


@dataclass(frozen=True, eq=False)
class Parts:
    """What the rows of an update's tables show that places can be made of.

    Attributes:
        tokens: int64 (n,).
        positions: int64, from 0.
        types: int64, token types.
        edges: Rows by table of coordinates, ``x``, ``y``, ``h`` and ``w``.
    """

    tokens: Integers
    positions: Integers
    types: Integers
    edges: Mapping[str, Integers]

    def heads(self) -> Integers:
        """All tokens at all positions, int64 (n, 7), in empty boxes."""
        rows = np.array(list(product(self.tokens, self.positions, self.types)), dtype=np.int64).reshape(-1, 3)
        return np.concatenate([rows, np.zeros((len(rows), 4), np.int64)], axis=1)

    def count(self) -> int:
        """Number of boxes."""
        return len(_pairs(self.edges["x"], self.edges["w"])) * len(_pairs(self.edges["y"], self.edges["h"]))

    def boxes(self) -> Integers:
        """All boxes of the coordinates whose width and height occur as well, int64 (n, 4)."""
        across, down = (_pairs(self.edges[axis], self.edges[size]) for axis, size in (("x", "w"), ("y", "h")))
        rows = [(left, top, right, bottom) for left, right in across for top, bottom in down]
        return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _pairs(coordinates: Integers, sizes: Integers) -> list[tuple[int, int]]:
    known = set(sizes.tolist())
    return [(low, high) for low in coordinates.tolist() for high in coordinates.tolist() if high - low in known]


@dataclass(frozen=True, eq=False)
class Placed:
    """Places in a span.

    Attributes:
        places: int64 (n, 7); all that are on a page, where they and wrong ones are apart.
        certain: bool (n,), those that no combination of others explains; they are on a page.
        apart: Levels of the test.
        rank: Directions of the span.
    """

    places: Integers
    certain: Bools
    apart: Apart
    rank: int


def places_in(
    bases: Sequence[Basis], inputs: TextInputs, parts: Parts, known: Integers, rng: np.random.Generator
) -> Placed:
    """Test all places that the parts make.

    Args:
        bases: Spans of the first attention's inputs.
        known: int64 (k, 7), places that every sample has.
        rng: Generator of the random places and directions.

    Returns:
        No places where inputs and other vectors are not apart.
    """
    heads, boxes = parts.heads(), parts.boxes()
    chance = places_of_chance(inputs, int(parts.positions.max(initial=0)) + 1, rng)
    tests = max(1, len(heads) * len(boxes))
    basis, apart = first_apart(bases, inputs.inputs(known), inputs.inputs(chance)[None], tests)
    if not apart.separated:
        return Placed(known[:0], np.zeros(0, bool), apart, bases[0].rank)
    outside = Outside.of(basis, inputs)
    sketch = outside.map @ rng.standard_normal((outside.size, _SKETCH)) / np.sqrt(_SKETCH)
    left, right = (
        np.concatenate([of(some) @ sketch for some in _blocks(rows)])
        for of, rows in ((inputs.words, heads), (inputs.boxes, boxes))
    )
    random = (inputs.words(chance) + inputs.boxes(chance[:, BOX])) @ sketch
    near = (_NEAR * float(np.median(np.linalg.norm(random, axis=1)))) ** 2
    found, excess = [known], [basis.excess_of(inputs.inputs(known))]
    step = max(1, _BLOCK // max(len(boxes), 1))
    for first in range(0, len(heads), step):
        rows, columns = np.nonzero(_squares(left[first : first + step], right) < near)
        for at in range(0, len(rows), _PART):
            some = heads[first + rows[at : at + _PART]]
            some[:, BOX] = boxes[columns[at : at + _PART]]
            measured = basis.excess_of(inputs.inputs(some))
            found.append(some[measured < apart.low])
            excess.append(measured[measured < apart.low])
    values = np.concatenate(excess)
    places = np.unique(np.concatenate(found)[values <= apart.cut(values)], axis=0)
    return Placed(places, alone(places), apart, basis.rank)


def alone(places: Integers) -> Bools:
    """Places that are no combination of others, bool (n,), where all embeddings are taken to be independent.

    As inputs are sums, (a, 1, b) - (a, 2, b) + (c, 2, d) makes (c, 1, d), which is in the span and may be on no page.
    """
    if not len(places):
        return np.zeros(0, bool)
    directions, sizes, _ = np.linalg.svd(_incidence(places), full_matrices=False)
    return np.asarray(np.square(directions[:, sizes > _SAME * sizes[0]]).sum(axis=1) > _ALONE)


def rank_of(places: Integers) -> int:
    """Number of independent places, where all embeddings are taken to be independent."""
    if not len(places):
        return 0
    sizes = np.linalg.svd(_incidence(places), compute_uv=False)
    return int((sizes > _SAME * sizes[0]).sum())


def _incidence(places: Integers) -> Floats:
    """Which embeddings each place is made of, float64 (n, embeddings)."""
    columns = [*places[:, : POSITION + 2].T, *(rows for edges in edges_of(places[:, BOX]).values() for rows in edges)]
    incidence = []
    for column in columns:
        values, at = np.unique(column, return_inverse=True)
        incidence.append(np.eye(len(values))[at])
    return np.concatenate(incidence, axis=1)


def places_of_chance(inputs: TextInputs, positions: int, rng: np.random.Generator) -> Integers:
    """Random places at so many positions, int64 (n, 7)."""
    sizes = [len(inputs.tables["word"]), positions, len(inputs.tables["types"])]
    rows = [rng.integers(size, size=_NULL) for size in sizes]
    edges = [np.sort(rng.integers(1000, size=(_NULL, 2)), axis=1) for _ in range(2)]
    return np.stack([*rows, edges[0][:, 0], edges[1][:, 0], edges[0][:, 1], edges[1][:, 1]], axis=1)


def _blocks(rows: Integers) -> list[Integers]:
    """The same in blocks, one at least: vectors of all of them would not fit into memory."""
    return [rows[at : at + _PART] for at in range(0, max(len(rows), 1), _PART)]


def _squares(left: Floats, right: Floats) -> Floats:
    """Squared length of left_i + right_j, float32 (n, m): enough to tell what is near."""
    low, high = left.astype(np.float32), right.astype(np.float32)
    return np.asarray(np.square(low).sum(axis=1)[:, None] + np.square(high).sum(axis=1)[None] + 2 * low @ high.T)

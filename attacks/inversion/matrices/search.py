"""Which tokens can be at which positions in which boxes, where no table names any of them.

A place is token, position, type and box: some 1e15 for a page. They are not listed. First come empty boxes, which the
question has. Then upper and lower edges: in the directions that left and right edges and widths do not touch, a
token at a position is the negative of a pair of upper and lower edges, which a search of near neighbours finds; its
left and right edges follow from all other directions in the same way. Last, every token is tested at every position
in every box that was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.spatial import cKDTree

from pfl_audit.attacks.inversion.batches.inputs import BOX, POSITION, TOKEN, TYPE, TextInputs
from pfl_audit.attacks.inversion.batches.places import places_of_chance
from pfl_audit.attacks.inversion.input_span.basis import Basis
from pfl_audit.attacks.inversion.input_span.gap import Apart, first_apart
from pfl_audit.attacks.inversion.matrices.features import HIGHEST, Outside, all_pairs
from pfl_audit.metrics.arrays import Floats, Integers

LEAST: Final = 8
"""Directions beside a part of the coordinates, below which near neighbours are mostly wrong ones."""
_SKETCH: Final = 64
"""Directions in which all tokens are compared; only those that come near are tested in all directions."""
_AT_ONCE: Final = 16
"""Directions in which near neighbours are sought."""
_NEIGHBOURS: Final = 4
"""Nearest pairs of edges of a token at a position that are followed."""
_NEAR: Final = 0.3
"""Share of the length of random places up to which a place is near."""
_REACH: Final = 0.15
"""The same up to which near neighbours are sought: farther ones are mostly wrong, and take long."""
_TIMES: Final = 3.0
"""Times the distance of the farthest place that is known by its empty box."""
_PART: Final = 1 << 13
"""Places that are tested at a time."""
_MOST_TESTS: Final = 1e13
"""Number of tests up to which the level of wrong places is extrapolated: beyond, a chance is below double precision."""
_OF_NO_WORD: Final = np.array([[0] * 4, [HIGHEST] * 4])
"""Boxes of the question and of what encloses it and the page."""


@dataclass(frozen=True, eq=False)
class Found:
    """Places in the span.

    Attributes:
        places: int64 (n, 7).
        apart: Levels of the test.
        rank: Directions of the span.
        beside: Directions that left and right edges do not touch: below LEAST, boxes were not sought.
    """

    places: Integers
    apart: Apart
    rank: int
    beside: int


def find_places(bases: list[Basis], inputs: TextInputs, start: int, end: int, rng: np.random.Generator) -> Found:
    """Search all tokens, positions and boxes.

    Args:
        bases: Spans of the first attention's inputs.
        start: Token at the first position of every sample, in an empty box.
        end: Token at the last one.

    Returns:
        No places where inputs and other vectors are not apart, or where no sample's end is found.
    """
    known = np.array([[start, 0, 0, 0, 0, 0, 0]])
    rows = len(inputs.tables["position"]) - inputs.layout.first
    chance = places_of_chance(inputs, rows, rng)
    tests = min(_MOST_TESTS, float(len(inputs.tables["word"])) * rows * len(all_pairs()) ** 2)
    basis, apart = first_apart(bases, inputs.inputs(known), inputs.inputs(chance)[None], int(tests))
    if not apart.separated:
        return Found(known[:0], apart, bases[0].rank, 0)
    search = _Search(basis, inputs, apart, chance)
    empty = search.in_boxes(np.arange(rows), np.arange(len(inputs.tables["types"])), _OF_NO_WORD)
    excess = basis.excess_of(inputs.inputs(empty))
    empty = empty[excess <= apart.cut(excess)]
    ends = empty[empty[:, TOKEN] == end][:, POSITION]
    if not len(ends):
        return Found(known[:0], apart, basis.rank, 0)
    positions, kinds = np.arange(int(ends.max())), np.unique(empty[:, TYPE])
    beside = search.outside.beside("x", "w")
    found = [empty]
    if beside.size >= LEAST:
        boxes = search.edges(beside, positions, kinds, empty)
        found += [boxes, search.in_boxes(positions, kinds, np.unique(boxes[:, BOX], axis=0))]
    places = np.unique(np.concatenate(found), axis=0)
    places = places[places[:, POSITION] <= ends.max()]
    excess = basis.excess_of(inputs.inputs(places))
    return Found(places[excess <= apart.cut(excess)], apart, basis.rank, beside.size)


class _Search:
    """Places in one span.

    Args:
        chance: int64 (n, 7), random places.
    """

    def __init__(self, basis: Basis, inputs: TextInputs, apart: Apart, chance: Integers) -> None:
        self._basis, self._inputs, self._apart, self._chance = basis, inputs, apart, chance
        self.outside = Outside.of(basis, inputs)

    def in_boxes(self, positions: Integers, kinds: Integers, boxes: Integers) -> Integers:
        """All tokens at these positions in these boxes, as far as they are in the span, int64 (n, 7)."""
        outside = self.outside.first(_SKETCH)
        words, near = outside.words(), (_NEAR * self._random(outside)) ** 2
        lengths, placed = np.square(words).sum(axis=1), outside.boxes(boxes)
        found = []
        for kind in kinds.tolist():
            for position, head in zip(positions.tolist(), outside.places(positions, kind), strict=True):
                left = head + placed
                squares = lengths[:, None] + np.square(left).sum(axis=1)[None] + 2 * words @ left.T
                tokens, at = np.nonzero(squares < near)
                if len(tokens):
                    found.append(_rows(tokens, position, kind, boxes[at]))
        return self._inside(found)

    def edges(self, beside: Outside, positions: Integers, kinds: Integers, empty: Integers) -> Integers:
        """Places in all boxes, by their upper and lower edges first, int64 (n, 7)."""
        pairs = all_pairs()
        some, across = beside.first(_AT_ONCE), self.outside.first(_AT_ONCE)
        down_tree = cKDTree(some.intervals("y", "h", pairs))
        across_tree = cKDTree(across.intervals("x", "w", pairs))
        radius, reach = self._radius(some, empty), self._radius(across, empty)
        words, found = some.words(), []
        for kind in kinds.tolist():
            for position, head in zip(positions.tolist(), some.places(positions, kind), strict=True):
                tokens, at = _neighbours(down_tree, -(words + head), radius)
                if not len(tokens):
                    continue
                boxes = np.zeros((len(tokens), 4), np.int64)
                boxes[:, [1, 3]] = pairs[at]
                rows = _rows(tokens, position, kind, boxes)
                left = self._down(across, rows, pairs[at])
                which, sides = _neighbours(across_tree, -left, reach)
                rows = rows[which]
                rows[:, [3, 5]] = pairs[sides]
                found.append(rows)
        return self._inside(found)

    def _down(self, outside: Outside, rows: Integers, pairs: Integers) -> Floats:
        """Images of places without their left and right edges, float64 (n, directions)."""
        return np.asarray(self._inputs.words(rows) @ outside.map + outside.intervals("y", "h", pairs))

    def _radius(self, outside: Outside, empty: Integers) -> float:
        """Distance up to which a true place may be off, by those that are known."""
        off = (self._inputs.words(empty) + self._inputs.boxes(empty[:, BOX])) @ outside.map
        farthest = float(np.linalg.norm(off, axis=1).max(initial=0.0))
        return min(_TIMES * farthest, _REACH * self._random(outside))

    def _random(self, outside: Outside) -> float:
        """Length of random places."""
        vectors = self._inputs.words(self._chance) + self._inputs.boxes(self._chance[:, BOX])
        return float(np.median(np.linalg.norm(vectors @ outside.map, axis=1)))

    def _inside(self, found: list[Integers]) -> Integers:
        """Those of some places that may be in the span."""
        kept = [np.zeros((0, 7), np.int64)]
        for rows in found:
            for first in range(0, len(rows), _PART):
                some = rows[first : first + _PART]
                kept.append(some[self._basis.excess_of(self._inputs.inputs(some)) < self._apart.low])
        return np.concatenate(kept)


def _neighbours(tree: cKDTree, points: Floats, radius: float) -> tuple[Integers, Integers]:
    """Numbers of points and of their nearest neighbours in a tree within a radius, int64 (n,) each."""
    _, found = tree.query(points, k=_NEIGHBOURS, distance_upper_bound=max(radius, np.finfo(float).tiny))
    points_at, columns = np.nonzero(found < tree.n)
    return points_at.astype(np.int64), found[points_at, columns].astype(np.int64)


def _rows(tokens: Integers, position: int, kind: int, boxes: Integers) -> Integers:
    """Places, int64 (n, 7)."""
    rows = np.zeros((len(tokens), 7), np.int64)
    rows[:, TOKEN], rows[:, POSITION], rows[:, TYPE], rows[:, BOX] = tokens, position, kind, boxes
    return rows

"""What embeddings are outside the span of the first layer's inputs, and there beside the part of some coordinates.

Outside the span and outside what LayerNorm adds of its own, token + position + type + box of a true place is zero. Of a
box the left and right edges and the width are in slices of their own, which few directions touch: in all others
a token at a position and its upper and lower edge make zero by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.batches.inputs import TextInputs
from pfl_audit.attacks.inversion.input_span.basis import Basis
from pfl_audit.metrics.arrays import Floats, Integers

HIGHEST: Final = 1000
"""Largest coordinate of a box."""
_SAME: Final = 1e-9
"""Share of the largest singular value below which a direction is none."""


@dataclass(frozen=True, eq=False)
class Outside:
    """A linear map of embeddings, which is zero for true places.

    Attributes:
        inputs: Weights that inputs are made of.
        map: float64 (width, n).
    """

    inputs: TextInputs
    map: Floats

    @classmethod
    def of(cls, basis: Basis, inputs: TextInputs) -> Outside:
        """All directions outside the span and outside what LayerNorm adds."""
        every, own = inputs.linear(np.eye(inputs.layout.width))
        beside = every / basis.scales @ basis.outside
        return cls(inputs, beside @ _free(own / basis.scales @ basis.outside))

    def beside(self, *axes: str) -> Outside:
        """The directions that no row of some tables of coordinates touches."""
        touched = [self.map[part] for axis in axes for part in self.inputs.layout.slices[axis]]
        return Outside(self.inputs, self.map @ _free(np.concatenate(touched)))

    @property
    def size(self) -> int:
        """Number of directions."""
        return int(self.map.shape[1])

    def first(self, size: int) -> Outside:
        """Some of the directions."""
        return Outside(self.inputs, self.map[:, :size])

    def words(self) -> Floats:
        """Images of all tokens, float64 (vocabulary, n)."""
        return np.asarray(self.inputs.tables["word"] @ self.map)

    def places(self, positions: Integers, kind: int) -> Floats:
        """Images of positions with a token type, float64 (positions, n)."""
        rows = self.inputs.tables["position"][positions + self.inputs.layout.first]
        return np.asarray((rows + self.inputs.tables["types"][kind]) @ self.map)

    def boxes(self, boxes: Integers) -> Floats:
        """Images of boxes, int64 (m, 4): float64 (m, n)."""
        return np.asarray(self.inputs.boxes(boxes) @ self.map)

    def intervals(self, edges: str, size: str, pairs: Integers) -> Floats:
        """Images of pairs of a lower and an upper edge with their difference, float64 (pairs, n).

        Args:
            edges: Table of the edges, ``x`` or ``y``.
            size: Table of the differences, ``w`` or ``h``.
            pairs: int64 (pairs, 2).
        """
        slices = self.inputs.layout.slices
        low, high = (self.inputs.tables[edges] @ self.map[part] for part in slices[edges])
        (part,) = slices[size]
        return np.asarray(
            low[pairs[:, 0]]
            + high[pairs[:, 1]]
            + (self.inputs.tables[size] @ self.map[part])[pairs[:, 1] - pairs[:, 0]]
        )


def all_pairs() -> Integers:
    """All pairs of a lower and an upper edge, int64 (pairs, 2)."""
    low, high = np.triu_indices(HIGHEST + 1)
    return np.stack([low, high], axis=1)


def _free(rows: Floats) -> Floats:
    """Orthonormal directions that are orthogonal to rows, float64 (width, n)."""
    _, sizes, directions = np.linalg.svd(rows)
    taken = int((sizes > _SAME * max(sizes.max(initial=0.0), 1.0)).sum())
    return np.asarray(directions[taken:].T)

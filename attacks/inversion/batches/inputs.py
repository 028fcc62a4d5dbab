"""Inputs of the first encoder layer of a model of words with boxes, in double precision, from its weights.

    x = LayerNorm(... LayerNorm(W[token] + P[position] + T[type] + boxes))

A place is a row of seven numbers: token, position, token type, left, top, right, bottom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.tables import array_of
from pfl_audit.metrics.arrays import Floats, Integers
from pfl_audit.models.word_encoder import EmbeddingLayout, EncoderInputs

_LARGEST_SIZE = 1023
"""LayoutLMv3 clips heights and widths to 0..1023."""
TOKEN, POSITION, TYPE, BOX = 0, 1, 2, slice(3, 7)
"""Columns of a place."""


@dataclass(frozen=True, eq=False)
class TextInputs:
    """Weights that inputs are made of, float64.

    Attributes:
        layout: The embedding sum.
        tables: By name, (rows, width of the table).
        norms: Weight, bias and epsilon of each LayerNorm that follows the sum.
    """

    layout: EmbeddingLayout
    tables: Mapping[str, Floats]
    norms: tuple[tuple[Floats, Floats, float], ...]

    @classmethod
    def of(cls, layout: EmbeddingLayout, names: EncoderInputs, weights: Mapping[str, Tensor]) -> TextInputs:
        """Those of a model.

        Args:
            weights: By parameter; of names only their endings count.
        """
        read = partial(array_of, weights)
        parts = ("word", "position", "types", "x", "y", "h", "w")
        tables: dict[str, Floats] = {name: read(table.name) for name, table in layout.tables.items() if name in parts}
        return cls(layout, tables, tuple((read(norm.gain), read(norm.shift), norm.epsilon) for norm in names.norms))

    def words(self, places: Integers) -> Floats:
        """What token, position and type add to the sum, float64 (n, width); the other columns are not read."""
        found = self.tables["word"][places[:, TOKEN]] + self.tables["position"][places[:, POSITION] + self.layout.first]
        return np.asarray(found + self.tables["types"][places[:, TYPE]])

    def boxes(self, boxes: Integers) -> Floats:
        """What boxes, int64 (n, 4), add to the sum, float64 (n, width)."""
        found = np.zeros((len(boxes), self.layout.width))
        for name, edges in edges_of(boxes).items():
            for part, rows in zip(self.layout.slices[name], edges, strict=True):
                found[:, part] += self.tables[name][rows]
        return found

    def inputs(self, places: Integers) -> Floats:
        """Inputs of the first layer, float64 (n, width)."""
        states = self.words(places) + self.boxes(places[:, BOX])
        for gain, shift, epsilon in self.norms:
            states = states - states.mean(axis=1, keepdims=True)
            states = gain * states / np.sqrt(np.square(states).mean(axis=1, keepdims=True) + epsilon) + shift
        return states

    def linear(self, vectors: Floats) -> tuple[Floats, Floats]:
        """What LayerNorm leaves of a sum but for its length, and the directions that it adds of its own.

        Args:
            vectors: float64 (n, width), sums of embeddings or parts of them.

        Returns:
            float64 (n, width), linear in the vectors, and float64 (k, width): an input is a multiple of the first and a
            combination of the others.
        """
        return through_norms(vectors, self.norms)


def through_norms(vectors: Floats, norms: Sequence[tuple[Floats, Floats, float]]) -> tuple[Floats, Floats]:
    """As ``TextInputs.linear``, of any LayerNorms: weight, bias and epsilon of each."""
    left, own = vectors, np.zeros((0, vectors.shape[1]))
    for gain, shift, _ in norms:  # the mean of a vector moves it along a vector of ones
        left, own = gain * left, np.concatenate([gain * own, gain[None], shift[None]])
    return left, own


def edges_of(boxes: Integers) -> dict[str, tuple[Integers, ...]]:
    """Rows of the tables of coordinates that boxes, int64 (n, 4), look up: by table, int64 (n,) for each slice."""
    left, top, right, bottom = boxes.T
    high, wide = (np.clip(size, 0, _LARGEST_SIZE) for size in (bottom - top, right - left))
    return {"x": (left, right), "y": (top, bottom), "h": (high,), "w": (wide,)}

"""How far a sequence of inputs is from the span of what the first feed-forward layer was given.

Inputs of the first attention are sums of a token and a box, so that their span allows every pairing within a chain.
Attention is not linear: with a wrong token in a box, or in another order, what follows it is outside the span of

    dL/dW_i = sum_p a_p y_p^T,   y_p ~ gain (x_p + sum_h O_h sum_j softmax(q_p k_j + bias(j - p)) v_j)

the gradient of the layer that is given y. A whole sequence is in the span at every position if it is the true one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.tables import array_of
from pfl_audit.attacks.inversion.input_span.basis import Basis
from pfl_audit.metrics.arrays import Floats, Integers
from pfl_audit.models.word_tables import FirstAttention


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """Weights of a first layer, float64.

    Attributes:
        norm: (width,), gain of the norm before the attention.
        query: (inner, width); heads one below the other.
        key: (inner, width).
        value: (inner, width).
        out: (width, inner).
        second: (width,), gain of the norm before the next layer.
        epsilon: Epsilon of the layer norms.
        heads: Number of heads.
        bias: Length to what is added to the scores, float64 (heads, length, length).
    """

    norm: Floats
    query: Floats
    key: Floats
    value: Floats
    out: Floats
    second: Floats
    epsilon: float
    heads: int
    bias: Callable[[int], Floats]

    def parts_of(self, inputs: Floats, directions: Floats) -> Parts:
        """What the layer makes of inputs float64 (n, width), in directions float64 (width, count)."""
        normed = self.norm * inputs / np.sqrt(np.square(inputs).mean(axis=1, keepdims=True) + self.epsilon)

        def by_head(matrix: Floats) -> Floats:
            return np.asarray((normed @ matrix.T).reshape(len(inputs), self.heads, -1).transpose(1, 0, 2))

        out = (directions.T @ self.out).reshape(directions.shape[1], self.heads, -1).transpose(1, 2, 0)
        moved = by_head(self.value) @ out
        return Parts(inputs @ directions, by_head(self.query), by_head(self.key), moved, self.bias)


@dataclass(frozen=True, eq=False)
class Parts:
    """What the first layer makes of inputs, in given directions.

    Attributes:
        own: float64 (n, directions), the inputs themselves.
        query: float64 (heads, n, size).
        key: float64 (heads, n, size).
        moved: float64 (heads, n, directions), what attention to each adds.
        bias: As of FirstLayer.
    """

    own: Floats
    query: Floats
    key: Floats
    moved: Floats
    bias: Callable[[int], Floats]

    def at(self, sequence: Integers, place: int, candidates: Integers) -> Floats:
        """What the next layer is given at a place with other inputs in it, up to a factor each, (n, directions).

        Args:
            sequence: int64 (length,), numbers of inputs.
            candidates: int64 (n,), inputs to put there.
        """
        bias = self.bias(len(sequence))[:, place]
        found = self.own[candidates].copy()
        for head in range(len(self.query)):
            query, moved = self.query[head, candidates], self.moved[head, sequence]
            scores = query @ self.key[head, sequence].T + bias[head]
            scores[:, place] = (query * self.key[head, candidates]).sum(axis=1) + bias[head, place]
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
            found += shares @ moved + shares[:, place, None] * (self.moved[head, candidates] - moved[place])
        return np.asarray(found)


def outside_of(layer: FirstLayer, basis: Basis, directions: int | None, rng: np.random.Generator) -> Floats:
    """Directions outside the span, float64 (width, count), for inputs of the second norm.

    Args:
        directions: Number of random directions, whose squared lengths are those of all in the mean; all if None.
    """
    outside = basis.outside / basis.scales[:, None] * layer.second[:, None]
    if directions is not None and directions < outside.shape[1]:
        outside = outside @ (rng.standard_normal((outside.shape[1], directions)) / np.sqrt(directions))
    return np.asarray(outside)


class Distances:
    """Squared distances from the span, for sequences of given inputs.

    Args:
        layer: Weights.
        basis: Span of what the feed-forward layer was given.
        inputs: float64 (n, width), all inputs that sequences are made of, before the first norm.
        directions: Number of random directions outside the span that distances use; all if None.
    """

    def __init__(
        self, layer: FirstLayer, basis: Basis, inputs: Floats, directions: int | None, rng: np.random.Generator
    ) -> None:
        outside = outside_of(layer, basis, directions, rng)
        self._parts = layer.parts_of(inputs, outside)

    def of(self, sequences: Integers) -> Floats:
        """Of every position, float64 (batch, length).

        Args:
            sequences: int64 (batch, length), numbers of inputs.
        """
        parts = self._parts
        bias, left = parts.bias(sequences.shape[1]), parts.own[sequences]
        for head in range(len(parts.query)):
            query, key = parts.query[head, sequences], parts.key[head, sequences]
            scores = query @ key.transpose(0, 2, 1) + bias[head]
            scores = np.exp(scores - scores.max(axis=2, keepdims=True))
            left = left + (scores / scores.sum(axis=2, keepdims=True)) @ parts.moved[head, sequences]
        return np.asarray(np.square(left).sum(axis=2))

    def at(self, sequence: Integers, place: int, candidates: Integers) -> Floats:
        """Of one position with other inputs in it, float64 (n,).

        Args:
            sequence: int64 (length,).
            candidates: int64 (n,), inputs to put there.
        """
        return np.asarray(np.square(self._parts.at(sequence, place, candidates)).sum(axis=1))


def first_layer(names: FirstAttention, bias: Callable[[int], Tensor], weights: Mapping[str, Tensor]) -> FirstLayer:
    """Weights of the first encoder layer.

    Args:
        bias: What is added to its scores, by length.
        weights: By parameter.
    """
    read = partial(array_of, weights)

    @lru_cache(maxsize=64)
    def added(length: int) -> Floats:
        return bias(length).cpu().double().numpy()

    return FirstLayer(
        norm=read(names.norm),
        query=read(names.query),
        key=read(names.key),
        value=read(names.value),
        out=read(names.out),
        second=read(names.second),
        epsilon=names.epsilon,
        heads=names.heads,
        bias=added,
    )

"""What is left of a text's positions outside the span, and what one other input changes of all of it.

The inputs of the first feed-forward layer (``sequence``), without their norm and projected onto directions outside the
span, at the text's positions and at some of the page's patches:

    r_p = P (x_p + sum_h N_hp / Z_hp),   N_hp = sum_j e_hpj O_h v_hj,   Z_hp = sum_j e_hpj,
    e_hpj = exp(q_hp k_hj + b_h(j - p))

Another input c at place j changes one term of every sum, so that r is known for all c from the sums of one text.
Single precision: these numbers direct a search, and certify nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.input_span.basis import Basis
from pfl_audit.attacks.inversion.input_span.sequence import FirstLayer, outside_of
from pfl_audit.metrics.arrays import Floats, Integers

Singles = NDArray[np.float32]

_PATCHES: Final = 64
"""Patches whose positions are looked at; all of them are attended to."""
_LEAST: Final = 1e-5
"""Squared residual that counts as none, over that of an input without attention; single precision leaves less."""


@dataclass(frozen=True, eq=False)
class Text:
    """A text's sums.

    Attributes:
        inputs: int64 (length,), of the text and the page behind it.
        weights: e without the largest score's factor, float32 (heads, rows, length).
        highest: That score, float32 (heads, rows).
        numerators: N, float32 (heads, rows, directions).
        denominators: Z, float32 (heads, rows).
        residuals: r, float32 (rows, directions); rows are the text's positions, then those of some patches.
        cost: What they cost (``Residuals.costs``).
    """

    inputs: Integers
    weights: Singles
    highest: Singles
    numerators: Singles
    denominators: Singles
    residuals: Singles
    cost: float


class Residuals:
    """Residuals of texts that are made of given inputs, with one page behind them.

    Args:
        layer: Weights.
        basis: Span of what the feed-forward layer was given.
        inputs: float64 (n, width), before the first norm.
        page: Numbers of the inputs of the page's patches.
        directions: Number of random directions outside the span; all if there are fewer.
        rng: Generator of the directions and of the patches looked at.
    """

    def __init__(
        self,
        layer: FirstLayer,
        basis: Basis,
        inputs: Floats,
        page: Sequence[int],
        directions: int,
        rng: np.random.Generator,
    ) -> None:
        outside = outside_of(layer, basis, directions, rng)
        self._parts = parts = layer.parts_of(inputs, outside)
        self._bias, self.page = layer.bias, np.array(page, dtype=np.int64)
        self._seen = np.sort(rng.permutation(len(self.page))[:_PATCHES])
        self._own, self._query, self._key, self._moved = (
            part.astype(np.float32) for part in (parts.own, parts.query, parts.key, parts.moved)
        )
        self._least = _LEAST * float(np.square(parts.own).sum(axis=1).mean())

    def costs(self, residuals: Singles) -> Singles:
        """Mean logarithm of the squared residuals of all rows, float32 (...), of residuals (..., rows, directions).

        A wrong context moves some positions by hundreds of times as much as others, so that a sum of squares is that of
        a few positions, and with one more right piece it may be larger than before. The mean logarithm is, but for a
        constant, that of the likelihood of normal residuals whose size is unknown in every position: it falls with each
        position that comes nearer to the span, and compares texts of all lengths.
        """
        return np.asarray(np.log(np.square(residuals).sum(axis=-1) + self._least).mean(axis=-1))

    def of(self, text: Sequence[int]) -> Text:
        """Sums of a text, given as numbers of inputs."""
        inputs = np.concatenate([np.array(text, dtype=np.int64), self.page])
        rows = self._rows(inputs)
        scores = self._query[:, inputs[rows]] @ self._key[:, inputs].transpose(0, 2, 1)
        scores += self._bias(len(inputs))[:, rows].astype(np.float32)
        highest = scores.max(axis=2)
        weights = np.exp(scores - highest[..., None])
        numerators, denominators = weights @ self._moved[:, inputs], weights.sum(axis=2)
        residuals = self._own[inputs[rows]] + (numerators / denominators[..., None]).sum(axis=0)
        cost = float(self.costs(residuals))
        return Text(inputs, weights, highest, numerators, denominators, residuals, cost)

    def replaced(self, text: Text, place: int, candidates: Sequence[int] | Integers) -> Singles:
        """Residuals with another input in one place, float32 (candidates, rows, directions)."""
        inputs, others = text.inputs, np.array(candidates, dtype=np.int64)
        rows, bias, moved = self._rows(inputs), self._bias(len(inputs)), self._moved[:, others]
        scores = self._query[:, inputs[rows]] @ self._key[:, others].transpose(0, 2, 1)
        scores += bias[:, rows, place, None].astype(np.float32)
        highest = np.maximum(text.highest, scores.max(axis=2))
        kept, new = np.exp(text.highest - highest), np.exp(scores - highest[..., None])
        before = text.weights[..., place]
        rest = (text.numerators - before[..., None] * self._moved[:, None, inputs[place]]) * kept[..., None]
        whole = 1 / (((text.denominators - before) * kept)[..., None] + new)
        left = whole.transpose(1, 2, 0) @ rest.transpose(1, 0, 2)  # rows, candidates, directions
        found = left.transpose(1, 0, 2) + (new * whole).transpose(2, 1, 0) @ moved.transpose(1, 0, 2)
        found += self._own[inputs[rows]]
        found[:, place] = self._parts.at(inputs, place, others)
        return np.asarray(found)

    def _rows(self, inputs: Integers) -> Integers:
        text = len(inputs) - len(self.page)
        return np.concatenate([np.arange(text), text + self._seen])

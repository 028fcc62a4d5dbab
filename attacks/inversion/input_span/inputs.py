"""Inputs of the first encoder layer as the weights make them: E[token] + W LayerNorm(X[l] + Y[t] + X[r] + Y[b]) + c.

A normalisation without a mean follows, which scales an input and multiplies its columns: the scale is left out here,
and nothing that is computed from inputs depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.tables import array_of
from pfl_audit.metrics.arrays import Floats, Integers
from pfl_audit.models.word_tables import SummedInputs


@dataclass(frozen=True, eq=False)
class InputParts:
    """Weights that inputs are made of, float64.

    Attributes:
        words: (vocabulary, width), times the columns' factors of the norm.
        across: (coordinates, width), the table of left and right edges, each row without its mean.
        down: The same of upper and lower edges.
        gain: (width,), of LayerNorm.
        shift: (width,), of LayerNorm.
        epsilon: Of LayerNorm.
        matcher: (width, width), W.
        offset: (width,), c.
        norm: (width,), the columns' factors.
    """

    words: Floats
    across: Floats
    down: Floats
    gain: Floats
    shift: Floats
    epsilon: float
    matcher: Floats
    offset: Floats
    norm: Floats

    @classmethod
    def of(cls, names: SummedInputs, weights: Mapping[str, Tensor]) -> InputParts:
        """Those of a model.

        Args:
            weights: By parameter; of names only their endings count.
        """
        read = partial(array_of, weights)
        norm = read(names.norm)
        across, down = (table - table.mean(axis=1, keepdims=True) for table in (read(names.across), read(names.down)))
        return cls(
            words=read(names.word) * norm,
            across=across,
            down=down,
            gain=read(names.gain),
            shift=read(names.shift),
            epsilon=names.epsilon,
            matcher=read(names.matcher),
            offset=read(names.offset),
            norm=norm,
        )

    def placed(self, boxes: Integers) -> Floats:
        """LayerNorm of boxes, float64 (n, width): the inputs of the spatial matcher.

        Args:
            boxes: int64 (n, 4), left, top, right, bottom.
        """
        left, top, right, bottom = boxes.T
        total = self.across[left] + self.down[top] + self.across[right] + self.down[bottom]
        spread = np.sqrt(np.square(total).mean(axis=1, keepdims=True) + self.epsilon)
        return np.asarray(self.gain * total / spread + self.shift)

    def spatial(self, boxes: Integers) -> Floats:
        """What boxes add to tokens, times the columns' factors, float64 (n, width)."""
        return np.asarray((self.placed(boxes) @ self.matcher.T + self.offset) * self.norm)

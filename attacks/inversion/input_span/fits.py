"""Whether a text fits the span within the errors of the update, and no other piece in any place does.

Distances alone do not tell where an update has errors of its own (half precision, noise): positions with a weak
signal are outside by much more than others. ``Basis.excess_of`` divides by what errors make of each input, so that a
text's positions are all at about 1, whatever their signals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.input_span.basis import Basis
from pfl_audit.attacks.inversion.input_span.sequence import FirstLayer
from pfl_audit.metrics.arrays import Floats, Integers

_FITS: Final = 2.0
"""Excess of any position up to which errors explain a text."""
_APART: Final = 2.0
"""Times the excess of every position that the nearest other piece must have in any place."""


class Fits:
    """The test, for sequences of given inputs.

    Args:
        layer: Weights.
        bases: Spans of what the feed-forward layer was given, of fewer and fewer directions.
        inputs: float64 (n, width), before the first norm.

    Attributes:
        parts: What the layer makes of the inputs, in all directions of the feed-forward layer's.
    """

    def __init__(self, layer: FirstLayer, bases: Sequence[Basis], inputs: Floats) -> None:
        self._bases = [basis for basis in bases if basis.informative]
        self.parts = layer.parts_of(inputs, np.diag(layer.second))

    def alone(self, sequence: Integers, text: int, others: Sequence[tuple[int, Integers]]) -> bool:
        """Whether a text fits in one of the spans, and each other piece is far outside of it.

        Args:
            sequence: int64 (length,), a text and the page behind it.
            text: Length of the text.
            others: Places, and the other inputs that are possible in each.
        """
        every = np.concatenate([self.parts.at(sequence, place, sequence[[place]]) for place in range(text)])
        for basis in self._bases:
            most = float(basis.excess_of(every).max())
            if most <= _FITS and all(
                _APART * most <= float(basis.excess_of(self.parts.at(sequence, place, among)).min())
                for place, among in others
                if len(among)
            ):
                return True
        return False

"""The bag of words of UTR, for comparison: tokens in the span of an adapter's gradient, within fixed tolerances.

A token is in the bag if a combination of the rows of the gradient of the adapter's first matrix is the token's input at
one of the positions, in every number to within 1e-3 and a thousandth of it. UTR makes sentences of the bag, so that it
finds no token that is not in it.

Source: Chen et al., Reconstructing Training Data from Adapter-based Federated Large Language Models, 2026
(2601.17533), and the authors' code (can_be_expressed_two). There the adapters are half as wide as the model.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.input_span.inputs import InputParts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOLERANCE: Final = 1e-3
"""Absolute, and relative, of the authors' code."""
_BLOCK: Final = 512


def bag_of_words(rows: Floats, parts: InputParts, boxes: Ints, taken: Floats | None = None) -> set[int]:
    """Tokens that are in the span in one of the boxes.

    Args:
        rows: float64 (r, width), gradients of the adapters' first matrices.
        boxes: int64 (n, 4), in the place of UTR's positions.
        taken: float64 (k, width), known vectors that are added to the rows (ours); none as published.
    """
    spanning = rows if taken is None else np.concatenate([rows, taken])
    spanning = spanning / np.linalg.norm(spanning, axis=1, keepdims=True)
    _, values, directions = np.linalg.svd(spanning, full_matrices=True)
    held = int((values > 1e-9 * values[0]).sum())
    outside, places, width = directions[held:].T, parts.spatial(boxes), parts.words.shape[1]
    found = set()
    for first in range(0, len(parts.words), _BLOCK):
        words = parts.words[first : first + _BLOCK]
        # Squared lengths first: of most inputs they are more than the tolerances of all numbers allow.
        own = _squares(words @ outside, places @ outside)
        before = words / parts.norm, places / parts.norm
        scales = np.sqrt(_squares(*before) / width)
        whole = _squares(words, places) / scales**2
        token, box = np.nonzero(own / scales**2 <= 4 * TOLERANCE**2 * (width + whole))
        for one, place in zip(token.tolist(), box.tolist(), strict=True):
            vector = (words[one] + places[place]) / scales[one, place]
            left = np.abs(outside @ (outside.T @ vector))
            if (left <= TOLERANCE * (1 + np.abs(vector))).all():
                found.add(first + one)
    return found


def _squares(left: Floats, right: Floats) -> Floats:
    """Squared length of left_i + right_j, float64 (n, m)."""
    return np.asarray(np.square(left).sum(axis=1)[:, None] + np.square(right).sum(axis=1)[None] + 2 * left @ right.T)

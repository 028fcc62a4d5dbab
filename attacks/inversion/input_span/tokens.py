"""Tokens and their boxes, by the span of the inputs of the first attention.

A token with a box is in the span if both are on a page and one chain of tokens that share boxes, and boxes that share
tokens, leads from one to the other: the differences along it are in the span. So what is found are the tokens, the
boxes and these groups, within which the span allows every pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.input_span.basis import Basis
from pfl_audit.attacks.inversion.input_span.gap import Apart, first_apart
from pfl_audit.attacks.inversion.input_span.inputs import InputParts
from pfl_audit.metrics.arrays import Floats, Integers

_BLOCK: Final = 2048
"""Tokens of one block."""
_NULL: Final = 256
"""Random tokens in a known box, and random boxes of a known token."""


@dataclass(frozen=True, eq=False)
class Allowed:
    """Which tokens can stand in which boxes.

    Attributes:
        tokens: int64 (n,), those that are on a page.
        boxes: int64 (m, 4), those in which one of them can stand.
        pairs: bool (n, m).
        words: Levels of the test of tokens.
        places: Levels of the test of boxes of tokens.
    """

    tokens: Integers
    boxes: Integers
    pairs: NDArray[np.bool_]
    words: Apart
    places: Apart


def pairs_in(
    bases: Sequence[Basis],
    parts: InputParts,
    candidates: Integers,
    boxes: Integers,
    known: Integers,
    rng: np.random.Generator,
    *,
    lower: bool = True,
) -> Allowed:
    """Test tokens with boxes.

    Args:
        bases: Spans of the inputs of the first attention.
        candidates: int64 (n,), tokens to test.
        boxes: int64 (m, 4), boxes to test them with.
        known: int64 (k, 5), tokens with their boxes that every sample has.
        rng: Generator of the random tokens.
        lower: As of ``Apart``, for boxes; of the tokens of a small vocabulary many are on a page.

    Returns:
        Pairs, without tokens that no box allows and boxes that no token is in; none where inputs and other vectors are
        not apart. Where wrong boxes of a token are not apart, every token is allowed in every box.
    """
    tests = len(candidates) * len(boxes)
    sure = parts.words[known[:, 0]] + parts.spatial(known[:, 1:])
    at = np.unique(known[:, 1:], axis=0, return_index=True)[1]
    tokens = rng.integers(len(parts.words), size=(len(at), _NULL))
    chance = parts.words[tokens] + parts.spatial(known[at, 1:])[:, None]
    basis, words = first_apart(bases, sure, chance, tests)
    moved = np.stack([rng.integers(len(table), size=_NULL) for table in (parts.across, parts.down) * 2], axis=1)
    wrong = [basis.excess_of(parts.words[known[row, 0]] + parts.spatial(moved)) for row in at]
    places = Apart(basis.excess_of(sure), np.stack(wrong), tests, lower=lower)
    if not words.separated:
        return Allowed(candidates[:0], boxes[:0], np.zeros((0, 0), bool), words, places)
    excess = np.concatenate(
        [
            _excess(basis, parts, candidates[first : first + _BLOCK], boxes)
            for first in range(0, len(candidates), _BLOCK)
        ]
    )
    nearest = excess.min(axis=1)
    cut = words.cut(nearest)
    kept = nearest <= cut
    if not places.separated:
        every = np.ones((int(kept.sum()), len(boxes)), bool)
        return Allowed(candidates[kept], boxes, every, words, places)
    pairs = excess[kept] <= min(cut, places.cut(excess[kept].ravel()))
    held = pairs.any(axis=0)
    rows = pairs.any(axis=1)
    return Allowed(candidates[kept][rows], boxes[held], pairs[rows][:, held], words, places)


def _excess(basis: Basis, parts: InputParts, tokens: Integers, boxes: Integers) -> Floats:
    """Excess of every token in every box, float64 (tokens, boxes)."""
    words, places = parts.words[tokens], parts.spatial(boxes)
    beside, turned = (_squares(feature(words), feature(places)) for feature in (basis.beside, basis.turned))
    return basis.excess(beside, turned)


def _squares(left: Floats, right: Floats) -> Floats:
    """Squared length of left_i + right_j, float64 (n, m)."""
    return np.asarray(np.square(left).sum(axis=1)[:, None] + np.square(right).sum(axis=1)[None] + 2 * left @ right.T)

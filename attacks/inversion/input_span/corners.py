"""Which of the boxes in a span are on a page, where some are combinations of others: corners of a printed table are.

With total_b = X[l] + Y[t] + X[r] + Y[b], less its mean, s_b its spread, n_b = total_b / s_b, LayerNorm(b) = gain n_b +
shift, and D_b the sum of the error signals in box b, the gradients of the matcher W and of the tables X and Y are

    dL/dW = sum_b D_b (gain n_b + shift)^T
    dL/dX[c] = sum over boxes with c of (1 - n_b n_b^T / d) gain (W^T D_b - mean) / s_b,   and so for Y

The first determines, for each coordinate c, S_c = sum over boxes with c of D_b / s_b, as long as the coordinates are
fewer than the width. What LayerNorm takes out of a signal along its own output is then left over:

    gain (W^T S_c - mean) - dL/dX[c] = sum over boxes with c of k_b n_b,   k_b = n_b^T gain W^T D_b / (d s_b)

with one unknown number for each box, zero for one that is on no page, in as many equations as all coordinates are wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.input_span.inputs import InputParts

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_ALONE: Final = 0.99
"""Leverage from which on a box is no combination of others."""
_DEPENDS: Final = 1e-6
"""Share of the largest singular value below which boxes are combinations of one another."""
_SPARER: Final = 20
"""Fits, each of which weighs boxes by their numbers of the one before (Gorodnitsky and Rao, FOCUSS, 1997)."""
_STRIKING: Final = 8.0
"""Standard deviations from which on a number is not zero."""
_POWER: Final = 1e-3
"""Smallest number that would be striking, over the middle one, up to which a box without a number is on no page."""
_LEAST: Final = 1e-300


@dataclass(frozen=True, eq=False)
class Standing:
    """Boxes in the span: those that are on a page, those that are on none; the others may be.

    Attributes:
        there: bool (n,), needed or with a number that is not zero.
        absent: bool (n,).
    """

    there: Bools
    absent: Bools


def needed(parts: InputParts, boxes: Ints) -> Bools:
    """Boxes that are no combination of others, bool (n,)."""
    directions, values, _ = np.linalg.svd(parts.placed(boxes), full_matrices=False)
    held = values > _DEPENDS * values[0]
    return np.asarray(np.square(directions[:, held]).sum(axis=1) > _ALONE)


def standing(
    parts: InputParts, boxes: Ints, matcher: Floats, offset: Floats | None, tables: tuple[Floats, Floats], sigma: float
) -> Standing:
    """Which boxes are on a page.

    Args:
        boxes: int64 (n, 4), all that are in the span of the matcher's inputs.
        matcher: float64 (width, width), gradient of the matcher.
        offset: float64 (width,), gradient of its offset; None where it is not shared.
        tables: Gradients of the tables of coordinates, float64 (coordinates, width).
        sigma: Standard deviation of what every entry has beside rounding.
    """
    alone = needed(parts, boxes)
    undecided = Standing(alone, np.zeros_like(alone))
    axes = [np.unique(boxes[:, at::2]) for at in range(2)]
    rows = np.concatenate([parts.across[axes[0]], parts.down[axes[1]]]) * parts.gain
    width = rows.shape[1]
    if alone.all() or len(rows) >= width or (offset is None and parts.shift.any()):
        return undecided
    plain = matcher if offset is None else matcher - np.outer(offset, parts.shift)
    sums = np.linalg.lstsq(rows.T, plain.T, rcond=None)[0]
    back = (sums @ parts.matcher) * parts.gain
    back -= back.mean(axis=1, keepdims=True)
    moved = np.concatenate([table[axis] for table, axis in zip(tables, axes, strict=True)])
    errors = np.maximum(np.linalg.norm(back, axis=1) + np.linalg.norm(moved, axis=1), sigma * np.sqrt(width))
    with_edge = _edges(boxes, axes) / np.maximum(errors, _LEAST)
    left = (back - moved) / np.maximum(errors, _LEAST)[:, None]
    total = parts.across[boxes[:, ::2]].sum(axis=1) + parts.down[boxes[:, 1::2]].sum(axis=1)
    normal = total / np.sqrt(np.square(total).mean(axis=1, keepdims=True) + parts.epsilon)
    system = (with_edge @ with_edge.T) * (normal @ normal.T)
    measured = ((with_edge @ left) * normal).sum(axis=1)
    numbers = _sparsest(system, measured)
    rest = left - with_edge.T @ (numbers[:, None] * normal)
    error = np.linalg.norm(rest) / np.sqrt(max(rest.size - len(boxes), 1))
    least = _STRIKING * error / np.sqrt(np.diag(system))
    striking = np.abs(numbers) > least
    if not striking.any():
        return undecided
    absent = ~striking & ~alone & (least < _POWER * np.median(np.abs(numbers[striking])))
    return Standing(alone | striking, absent)


def _edges(boxes: Ints, axes: list[Ints]) -> Floats:
    """How often a box has a coordinate, float64 (n, coordinates of both axes)."""
    found = np.zeros((len(boxes), len(axes[0]) + len(axes[1])))
    every = np.arange(len(boxes))
    for at in range(4):
        np.add.at(found, (every, np.searchsorted(axes[at % 2], boxes[:, at]) + (at % 2) * len(axes[0])), 1.0)
    return found


def _sparsest(system: Floats, measured: Floats) -> Floats:
    """Least squares, and of all solutions one with few numbers that are not zero, float64 (n,).

    Args:
        system: float64 (n, n), of the normal equations.
        measured: float64 (n,), their right side.
    """
    weights = 1 / np.sqrt(np.diag(system))
    numbers = np.zeros(len(system))
    for _ in range(_SPARER):
        inverse = np.linalg.pinv(system * np.outer(weights, weights), rcond=1e-10, hermitian=True)
        numbers = weights * (inverse @ (weights * measured))
        weights = np.abs(numbers)
    return numbers

"""Which of the boxes in a span are on a page, where some are combinations of others: corners of a printed table are.

With total_b = X[l] + Y[t] + X[r] + Y[b], less its mean, s_b its spread, n_b = total_b / s_b, LayerNorm(b) = gain n_b +
shift, and D_b the sum of the error signals in box b, the gradients of the matcher W and of the tables X and Y are

    dL/dW = sum_b D_b (gain n_b + shift)^T
    dL/dX[c] = sum over boxes with c of (1 - n_b n_b^T / d) gain (W^T D_b - mean) / s_b,   and so for Y

The first determines, for each coordinate c, S_c = sum over boxes with c of D_b / s_b, as long as the coordinates are
fewer than the width. What LayerNorm takes out of a signal along its own output is then left over:

    gain (W^T S_c - mean) - dL/dX[c] = sum over boxes with c of k_b n_b,   k_b = n_b^T gain W^T D_b / (d s_b)

with one unknown number for each box, zero for one that is on no page, in as many equations as all coordinates are wide.

Boxes of a cell that differ in three or four coordinates each depend on one another in these equations as well, so that
a sparse solution T need not be the page's. But signals are independent: the vectors of the boxes S of the pages lie in
the span of those of any T that explains the equations. A box outside this span is on no page, whatever T is, and of the
boxes that are left after several T those are on a page whose number all solutions share, and it is not zero. Where
other boxes lie in the span of S itself, both remain open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.analytic.noise import Noise, chi_square
from pfl_audit.attacks.inversion.input_span.inputs import InputParts
from pfl_audit.metrics.arrays import Bools, Floats, Integers

_ABOVE: Final = 1.1
"""Times the strongest direction that boxes leave, from which on a direction is none of the errors."""
_LEAST_OUTSIDE: Final = 8
"""Directions that boxes leave, below which their strength says nothing about errors."""
_DEPENDS: Final = 1e-6
"""Share of the largest singular value below which boxes are combinations of one another."""
_SAME: Final = 1 - 1e-6
"""Leverage from which on all solutions have the same number of a box; of exact relations it is below by more."""
_SPARER: Final = 20
"""Fits, each of which weighs boxes by their numbers of the one before (Gorodnitsky and Rao, FOCUSS, 1997)."""
_IDLE: Final = 8
"""Sparse solutions in a row that rule out no box, after which no more are sought."""
_STRIKING: Final = 8.0
"""Standard deviations from which on a number is not zero."""
_POWER: Final = 1e-3
"""Smallest number that would be striking, over the middle one, up to which a box outside a solution is on no page."""
_RANK: Final = 1e-6
"""Share of the largest singular value below which a direction is none."""
_SMALL: Final = 1e-11
"""Share of numbers of size 1 that double precision leaves of equations."""
_LEAST: Final = 1e-300


@dataclass(frozen=True, eq=False)
class Standing:
    """Boxes in the span: those that are on a page, those that are on none; the others may be.

    Attributes:
        there: bool (n,), needed, or with a number that is not zero in all solutions.
        absent: bool (n,), outside the span of a solution, or with the number zero in all.
    """

    there: Bools
    absent: Bools


def needed(placed: Floats, gradient: Floats) -> Bools:
    """Inputs that are no combination of others, and without which more of a gradient is left than there is with all.

    By errors of the gradient an input may be near the span of others and not in it: it then adds a direction in which
    the gradient is no stronger than in those that all inputs leave, and proves nothing.

    Args:
        placed: float64 (n, width), inputs of a layer, such as boxes.
        gradient: float64 (outputs, width), of the layer.

    Returns:
        bool (n,).
    """
    left, values, right = np.linalg.svd(placed, full_matrices=False)
    held = values > _DEPENDS * values[0]
    left, values, right = left[:, held], values[held], right[held]
    alone = np.square(left).sum(axis=1) > _SAME
    if placed.shape[1] - len(values) < _LEAST_OUTSIDE:
        return np.zeros_like(alone)
    rest = gradient - (gradient @ right.T) @ right
    errors = np.linalg.norm(rest, axis=1)
    scaled = gradient / np.maximum(errors, _SMALL * np.linalg.norm(gradient, axis=1).max() + _LEAST)[:, None]
    own = (left / values) @ right
    strength = np.linalg.norm(own @ scaled.T, axis=1) / np.linalg.norm(own, axis=1)
    return np.asarray(alone & (strength > _ABOVE * np.linalg.norm(scaled - (scaled @ right.T) @ right, ord=2)))


def standing(
    parts: InputParts,
    boxes: Integers,
    matcher: Floats,
    offset: Floats | None,
    tables: tuple[Floats, Floats],
    noise: Noise,
    rng: np.random.Generator,
    rounded: Sequence[Floats] | None = None,
) -> Standing:
    """Which boxes are on a page.

    Args:
        boxes: int64 (n, 4), all that are in the span of the matcher's inputs.
        matcher: float64 (width, width), gradient of the matcher.
        offset: float64 (width,), gradient of its offset; None where it is not shared.
        tables: Gradients of the tables of coordinates, float64 (coordinates, width).
        noise: Errors of the gradients.
        rng: Generator of the weights that solutions start from.
        rounded: Standard deviation of what weights that were subtracted add to an entry of each row of the matcher and
            of both tables, float64 (rows,) each; None where none were.
    """
    alone = needed(parts.placed(boxes), matcher)
    undecided = Standing(alone, np.zeros_like(alone))
    axes = [np.unique(boxes[:, at::2]) for at in range(2)]
    rows = np.concatenate([parts.across[axes[0]], parts.down[axes[1]]]) * parts.gain
    width = rows.shape[1]
    if alone.all() or len(rows) >= width or (offset is None and parts.shift.any()):
        return undecided
    plain = matcher if offset is None else matcher - np.outer(offset, parts.shift)
    solve = np.linalg.pinv(rows.T)
    back = (solve @ plain.T @ parts.matcher) * parts.gain
    back -= back.mean(axis=1, keepdims=True)
    moved = np.concatenate([table[axis] for table, axis in zip(tables, axes, strict=True)])
    # What errors of the matcher's gradient make of a row, also of a coordinate that no page has, whose own row is zero.
    rounding = rounded or [np.zeros(len(table)) for table in (matcher, *tables)]
    variance = noise.sigma**2 + rounding[0][:, None] ** 2 + (noise.rounding * plain) ** 2
    through = np.square(solve) @ variance.T @ np.square(parts.matcher) @ np.square(parts.gain)
    own = noise.rounding * (np.linalg.norm(back, axis=1) + np.linalg.norm(moved, axis=1))
    added = noise.sigma**2 + np.concatenate([each[axis] for each, axis in zip(rounding[1:], axes, strict=True)]) ** 2
    errors = np.sqrt(own**2 + through + added * width)
    if not errors.all():  # the gradient is zero
        return undecided
    with_edge = _edges(boxes, axes) / errors
    left = (back - moved) / errors[:, None]
    total = parts.across[boxes[:, ::2]].sum(axis=1) + parts.down[boxes[:, 1::2]].sum(axis=1)
    normal = total / np.sqrt(np.square(total).mean(axis=1, keepdims=True) + parts.epsilon)
    system = (with_edge @ with_edge.T) * (normal @ normal.T)
    size = np.sqrt(np.diag(system))
    solved = _Equations.of(system / np.outer(size, size), ((with_edge @ left) * normal).sum(axis=1) / size)
    numbers = solved.numbers(np.ones(len(boxes), bool)) / size
    rest = left - with_edge.T @ (numbers[:, None] * normal)
    error = max(float(np.linalg.norm(rest)) / np.sqrt(max(rest.size - len(boxes), 1)), _SMALL)
    kept = _left_by_solutions(solved, error, rng)
    numbers, least = np.abs(solved.numbers(kept)), _STRIKING * error * solved.deviations(kept)
    same = kept & solved.same(kept)
    there = same & (numbers > least)
    if there.any():
        kept &= there | ~same | ~(least < _POWER * np.median(numbers[there]))
    return Standing(alone | there, ~kept & ~alone)


def _edges(boxes: Integers, axes: list[Integers]) -> Floats:
    """How often a box has a coordinate, float64 (n, coordinates of both axes)."""
    found = np.zeros((len(boxes), len(axes[0]) + len(axes[1])))
    every = np.arange(len(boxes))
    for at in range(4):
        np.add.at(found, (every, np.searchsorted(axes[at % 2], boxes[:, at]) + (at % 2) * len(axes[0])), 1.0)
    return found


@dataclass(frozen=True, eq=False)
class _Equations:
    """Independent equations for the numbers of boxes, in units of one over their vectors' lengths.

    Attributes:
        columns: float64 (equations, n), of length 1.
        measured: float64 (equations,), columns times the numbers, and errors.
    """

    columns: Floats
    measured: Floats

    @classmethod
    def of(cls, system: Floats, measured: Floats) -> _Equations:
        """From the normal equations: system float64 (n, n), and their right side float64 (n,)."""
        values, vectors = np.linalg.eigh(system)
        held = values > _RANK**2 * values[-1]
        roots, directions = np.sqrt(values[held])[:, None], vectors[:, held].T
        return cls(roots * directions, (directions / roots) @ measured)

    def numbers(self, among: Bools) -> Floats:
        """Least squares with these boxes alone, of all solutions the shortest; float64 (n,), zeros for the others."""
        found = np.zeros(len(among))
        found[among] = np.linalg.lstsq(self.columns[:, among], self.measured, rcond=_RANK)[0]
        return found

    def sparse(self, among: Bools, weights: Floats) -> Floats:
        """A solution with few numbers that are not zero, float64 (n,), from weights of these boxes."""
        numbers, columns = np.zeros(len(among)), self.columns[:, among]
        for _ in range(_SPARER):
            weighed = np.linalg.pinv(columns * weights, rcond=_RANK)
            numbers[among] = weights * (weighed @ self.measured)
            weights = np.abs(numbers[among])
        return numbers

    def same(self, among: Bools) -> Bools:
        """Whether all solutions with these boxes have the same number, bool (n,)."""
        found = np.zeros(len(among))
        directions, values = self._directions(among)[1:]
        found[among] = np.square(directions[values > _RANK * values[0]]).sum(axis=0)
        return np.asarray(found > _SAME)

    def deviations(self, among: Bools) -> Floats:
        """Standard deviation of the numbers over that of errors, float64 (n,), where all solutions have the same."""
        found = np.zeros(len(among))
        directions, values = self._directions(among)[1:]
        held = values > _RANK * values[0]
        found[among] = np.sqrt(np.square(directions[held] / values[held, None]).sum(axis=0))
        return found

    def beside(self, among: Bools) -> Floats:
        """Length of every box's column outside the span of these boxes' columns, float64 (n,)."""
        basis, _, values = self._directions(among)
        basis = basis[:, values > _RANK * values[0]]
        return np.asarray(np.linalg.norm(self.columns - basis @ (basis.T @ self.columns), axis=0))

    def unexplained(self, among: Bools) -> float:
        """Squared length of what these boxes leave of the equations."""
        return float(np.square(self.measured - self.columns @ self.numbers(among)).sum())

    def _directions(self, among: Bools) -> tuple[Floats, Floats, Floats]:
        left, values, right = np.linalg.svd(self.columns[:, among], full_matrices=False)
        return left, right, values


def _left_by_solutions(solved: _Equations, error: float, rng: np.random.Generator) -> Bools:
    """Boxes in the span of every solution that was found, bool (n,)."""
    equations, count = solved.columns.shape
    kept, weights, idle = np.ones(count, bool), np.ones(count), 0
    most = error**2 * equations * chi_square(_STRIKING, equations)
    while idle < _IDLE and not solved.same(kept)[kept].all():
        numbers = solved.sparse(kept, weights)
        taken = _fewest(solved, np.argsort(-np.abs(numbers)), most)
        least = _STRIKING * error / np.maximum(solved.beside(taken), _LEAST)
        outside = kept & ~taken & (least < _POWER * np.median(np.abs(numbers[taken])))
        idle = 0 if outside.any() else idle + 1
        kept &= ~outside
        weights = np.exp(rng.standard_normal(int(kept.sum())))
    return kept


def _fewest(solved: _Equations, order: Integers, most: float) -> Bools:
    """The first boxes of an order that leave no more of the equations than errors do, bool (n,); else all."""

    def first(many: int) -> Bools:
        taken = np.zeros(len(order), bool)
        taken[order[:many]] = True
        return taken

    few, enough = 0, len(order)
    while few + 1 < enough:
        middle = (few + enough) // 2
        few, enough = (few, middle) if solved.unexplained(first(middle)) <= most else (middle, enough)
    return first(enough)

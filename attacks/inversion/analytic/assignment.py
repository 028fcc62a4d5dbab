"""Assignment of vectors to sums, each vector being part of one sum only.

    G_r = sum_k x_rk a_k,   x_rk whole, not below 0,   sum_r x_rk = copies_k

G are rows of an embedding table's gradient, a_k the error signals of the positions. Where there are no more
signals than coordinates this is a linear system. Where there are more it is decoded from the outside in: sums of
one signal are seen at once; a sum of few is the sparsest solution that is not negative, which least squares under
x >= 0 finds; a sum of many is found under 0 <= x <= copies, while there are at most twice as many signals as
coordinates; and every sum that is understood leaves fewer signals for the others. What stays open is settled
together, each signal in the row that it improves most. Nothing is accepted that noise explains as well.

The 0/1 view of the word table is from issue 5; that the non-negative solution of least error is the sparse one:
Donoho and Tanner, Sparse nonnegative solution of underdetermined linear equations by linear programming, 2005;
that bounds on both sides decide up to twice the number of equations: the same, Counting the faces of randomly
projected hypercubes and orthants, 2010.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear, nnls

from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.metrics.arrays import Floats, Integers

_ROUNDS = 100


class Settling:
    """Signals in rows, and what it would cost to place them otherwise.

    Args:
        sums: G, float64 (rows, width).
        signals: a, float64 (signals, width).
        place: int64 (signals,), a first guess at the row of each.
    """

    def __init__(self, sums: Floats, signals: Floats, place: Integers) -> None:
        self.sums, self.signals, self.place = sums, signals, place.copy()
        self._inner = signals @ signals.T
        self._with_sums = signals @ sums.T

    def improve(self) -> None:
        """Change places until no move and no exchange helps."""
        for _ in range(_ROUNDS):
            moves, exchanges = self.costs()
            to, other = moves.argmin(axis=1), exchanges.argmin(axis=1)
            one, two = moves.min(axis=1), exchanges.min(axis=1)
            touched = np.zeros(len(self.sums), dtype=bool)
            before = self.place.copy()
            for signal in np.flatnonzero(np.minimum(one, two) < -1e-9 * self._inner.trace()):
                here = before[signal]
                there = to[signal] if one[signal] < two[signal] else before[other[signal]]
                if not (touched[here] or touched[there]):
                    touched[[here, there]] = True
                    self.place[signal] = there
                    if two[signal] <= one[signal]:
                        self.place[other[signal]] = here
            if not touched.any():
                break

    def residuals(self) -> Floats:
        """What the places leave of every row, float64 (rows, width)."""
        rest = self.sums.copy()
        np.subtract.at(rest, self.place, self.signals)
        return rest

    def costs(self) -> tuple[Floats, Floats]:
        """By how much J would rise.

        Returns:
            By moving a signal to a row, float64 (signals, rows), and by two signals changing places, (signals,
            signals); infinite where nothing would change.
        """
        every, square = np.arange(len(self.place)), self._inner.diagonal()[:, None]
        rest = self._with_sums - self._inner @ np.eye(len(self.sums))[self.place]
        mine = rest[every, self.place][:, None]
        moves = 2 * (mine - rest + square)
        moves[every, self.place] = np.inf
        crossed = mine - rest[:, self.place] + square
        exchanges = 2 * (crossed + crossed.T - 2 * self._inner)
        exchanges[self.place[:, None] == self.place] = np.inf
        return moves, exchanges


SURE = 12.0
"""Log-odds against the next best solution from which a row counts as solved: 1 in 160,000."""
LIKELY = 6.0
"""The same for one signal that is settled last: 1 in 400."""
_MOST = 256
"""Number of signals beyond which bounded least squares take too long."""
_TRIED = 12
"""Number of signals up to which every choice of them is tried."""
_CROWD = 8
"""Signals per coordinate above which local search does not converge."""


@dataclass(frozen=True)
class Assignment:
    """Row of every signal.

    Attributes:
        rows: int64 (signals, copies), the row of each copy in rising order; -1 where unknown.
        sure: bool (signals,), whether no other reading of its rows comes near.
        residual: Share of the rows' norm that the assignment leaves unexplained, 0 to about 1.
        complete: Whether every row is explained to within the noise.
    """

    rows: Integers
    sure: NDArray[np.bool_]
    residual: float
    complete: bool


def assign(
    sums: Floats,
    signals: Floats,
    copies: int,
    noise: Noise,
    *,
    variances: Floats | None = None,
    taken: Floats | None = None,
) -> Assignment:
    """Assign signals to rows.

    Args:
        sums: float64 (rows, width), none zero.
        signals: float64 (signals, width).
        copies: How many rows each signal is added to (the same row may be meant twice).
        variances: float64 (signals,), of the entries of each signal, where they are not those of the noise.
        taken: float64 (rows,), norms of what was subtracted from the rows before, for its rounding.

    Returns:
        Rows as indices into ``sums``.
    """
    puzzle = _Puzzle(
        sums,
        signals,
        copies,
        noise,
        np.full(len(signals), noise.sigma**2) if variances is None else variances,
        np.zeros(len(sums)) if taken is None else taken,
    )
    puzzle.peel()
    if noise.everywhere:
        puzzle.settle()
    return puzzle.outcome(copies)


def _clear(width: int) -> float:
    """By how many variances a squared residual has to rise for a reading to be sure.

    Signals carry noise of their own, so the squared residuals of two readings differ by chance as well: by the
    root of four times the width.
    """
    return 2 * (SURE + sqrt(width))


class _Puzzle:
    """State of an assignment: solved rows and remaining signals."""

    def __init__(
        self, sums: Floats, signals: Floats, copies: int, noise: Noise, variances: Floats, taken: Floats
    ) -> None:
        self.sums, self.signals, self.noise, self.variances = sums, signals, noise, variances
        self.masses = np.linalg.norm(sums, axis=1) + taken
        self.left = np.full(len(signals), copies)
        self.open = np.ones(len(sums), dtype=bool)
        self.counts = np.zeros((len(sums), len(signals)), dtype=np.int64)
        self.relaxed = np.zeros((len(sums), len(signals)))
        self.lengths = np.linalg.norm(signals, axis=1)
        self.sure = np.ones(len(signals), dtype=bool)

    def peel(self) -> None:
        """Solve row after row, by the cheapest method first, until none can be solved."""
        ways, at = (self._single, self._sparse, self._bounded, self._every), 0
        while at < len(ways) and self.open.any() and self.left.any():
            before = self.open.sum()
            self._remainder()
            ways[at]()
            at = at + 1 if self.open.sum() == before else 0

    def _remainder(self) -> None:
        """The last row takes what is left."""
        if self.open.sum() == 1:
            self._accept(int(np.flatnonzero(self.open)[0]), self.left.astype(float))

    def _single(self) -> None:
        """Rows of one signal."""
        near = self.sums[self.open] @ self.signals.T
        near = (self.sums[self.open] ** 2).sum(axis=1)[:, None] - 2 * near + self.lengths**2
        near[:, self.left == 0] = np.inf
        for row, signal in zip(np.flatnonzero(self.open), near.argmin(axis=1), strict=True):
            self._accept(int(row), np.eye(1, len(self.signals), signal)[0])

    def _sparse(self) -> None:
        """Rows of few signals."""
        for row in self._rows():
            free = np.flatnonzero((self.left > 0) & (self.lengths > 0))
            try:
                weights, _ = nnls((self.signals[free] / self.lengths[free, None]).T, self.sums[row])
            except RuntimeError:  # no end in sight, which another round may bring nearer
                continue
            self.relaxed[row] = 0
            self.relaxed[row, free] = weights / self.lengths[free]
            self._accept(row, self.relaxed[row])

    def _bounded(self) -> None:
        """Rows of half of what is left: no signal is in a row more often than there are copies of it."""
        for row in self._rows():
            free = np.flatnonzero((self.left > 0) & (self.lengths > 0))
            if not 0 < len(free) <= min(_MOST, 2 * self.sums.shape[1]):
                return
            length = self.lengths[free]
            bounds = (0.0, self.left[free] * length)
            weights = lsq_linear((self.signals[free] / length[:, None]).T, self.sums[row], bounds, method="bvls").x
            full = np.zeros(len(self.left))
            full[free] = weights / length
            self._accept(row, full)

    def _every(self) -> None:
        """Rows of any of few signals that are left, once each."""
        for row in self._rows():
            free = np.flatnonzero((self.left > 0) & (self.lengths > 0))
            if not 0 < len(free) <= _TRIED:
                return
            choices = np.arange(1, 1 << len(free))[:, None] >> np.arange(len(free)) & 1
            apart = np.square(choices @ self.signals[free] - self.sums[row]).sum(axis=1)
            full = np.zeros(len(self.left))
            full[free] = choices[apart.argmin()]
            self._accept(row, full)

    def _rows(self) -> list[int]:
        """Open rows, the smallest sum first; none where there are too many for these signals to make."""
        rows = np.flatnonzero(self.open)
        if len(rows) > self.left.sum():
            return []
        return [int(row) for row in rows[np.argsort(np.linalg.norm(self.sums[rows], axis=1))]]

    def _accept(self, row: int, weights: Floats) -> None:
        """Take a reading of a row if it fits and no other fits nearly as well."""
        counts = np.rint(weights).astype(np.int64)
        if (counts > self.left).any() or not counts.any():
            return
        rest = self.sums[row] - counts @ self.signals
        variance = self._variance(row, counts)
        if (
            rest @ rest <= self.noise.most(variance, len(rest))
            and self._margin(rest, counts) > _clear(len(rest)) * variance
        ):
            self.counts[row] = counts
            self.left -= counts
            self.open[row] = False

    def _variance(self, row: int, counts: Integers) -> float:
        """Of an entry of a row's residual: noise of the row and of every signal in it, and rounding."""
        mass = self.masses[row] + counts @ self.lengths
        return self.noise.variance(1, float(mass), self.sums.shape[1]) + float(counts**2 @ self.variances)

    def _margin(self, rest: Floats, counts: Integers) -> float:
        """What the squared residual rises by at least if one signal is swapped, dropped or added."""
        inside, outside = np.flatnonzero(counts), np.flatnonzero(self.left > counts)
        along = self.signals @ rest
        drop = self.lengths[inside] ** 2 + 2 * along[inside]
        add = self.lengths[outside] ** 2 - 2 * along[outside]
        swap = drop[:, None] + add - 2 * self.signals[inside] @ self.signals[outside].T
        swap[inside[:, None] == outside] = np.inf
        return float(min(drop.min(), add.min(initial=np.inf), swap.min(initial=np.inf)))

    def settle(self) -> None:
        """Assign the remaining signals jointly by local search, and keep the likely ones."""
        atoms, rows = np.repeat(np.arange(len(self.left)), self.left), np.flatnonzero(self.open)
        if not len(rows) or not 0 < len(atoms) <= _CROWD * self.sums.shape[1]:
            return
        found = Settling(self.sums[rows], self.signals[atoms], self.relaxed[np.ix_(rows, atoms)].argmax(axis=0))
        found.improve()
        place, rest = found.place, found.residuals()
        held = np.zeros((len(rows), len(self.left)), dtype=np.int64)
        np.add.at(held, (place, atoms), 1)
        variance = np.array([self._variance(int(row), counts) for row, counts in zip(rows, held, strict=True)])
        fits = (rest**2).sum(axis=1) <= np.array([self.noise.most(value, rest.shape[1]) for value in variance])
        moves, exchanges = found.costs()
        mine = variance[place]
        odds = np.minimum(
            (moves / np.maximum(mine[:, None], variance)).min(axis=1),
            (exchanges / np.maximum(mine[:, None], mine)).min(axis=1),
        )
        kept = fits[place] & (odds > 2 * LIKELY)
        self.sure[atoms[odds <= _clear(rest.shape[1])]] = False
        np.add.at(self.counts, (rows[place[kept]], atoms[kept]), 1)
        np.subtract.at(self.left, atoms[kept], 1)
        self.open[rows] = ~fits

    def outcome(self, copies: int) -> Assignment:
        """The rows of every signal."""
        rows = np.full((len(self.left), copies), -1, dtype=np.int64)
        for signal, counts in enumerate(self.counts.T):
            found = np.repeat(np.flatnonzero(counts), counts[counts > 0])
            rows[signal, : len(found)] = found
        rest = np.linalg.norm(self.sums - self.counts @ self.signals)
        whole = np.linalg.norm(self.sums)
        sure = self.sure & (rows >= 0).all(axis=1)
        return Assignment(rows, sure, float(rest / whole) if whole else 0.0, not self.open.any())

"""Joint assignment of signals to rows by local search.

    J = sum_r | G_r - sum_{k in r} a_k |^2

goes down by moving one signal to another row, and by letting two signals change places: all signals share a large
part, so a move spoils two sums where an exchange spoils only what the two differ in. The cost of the best move or
exchange that would undo a signal's place, in units of the noise, says how sure that place is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ROUNDS = 100


class Settling:
    """Signals in rows, and what it would cost to place them otherwise.

    Args:
        sums: G, float64 (rows, width).
        signals: a, float64 (signals, width).
        place: int64 (signals,), a first guess at the row of each.
    """

    def __init__(self, sums: Floats, signals: Floats, place: Ints) -> None:
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

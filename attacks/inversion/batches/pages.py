"""Pages of a batch: one place at every position, such that all of what the next layer is given lies in its span.

Attention is not linear: what the first feed-forward layer is given at a position depends on the whole page, so that a
place of another page is outside the span. With a place fixed that one page has, the others are a choice of one place at
each position. What one replacement changes is measured; the best mixture of all replacements is a least-squares problem
with numbers that are not negative and add up to one at each position, whose largest ones are the next guess (Gauss and
Newton's method). Where attention is nearly even, mixtures are exact, and the first guess is the page.

What the page's picture adds is unknown where the model sees one. It is nearly the same at all positions of the text,
where attention is nearly even, so that distances from their mean are compared instead.

The test of whole sequences in the span of a later layer is DAGER's (Petrov et al., 2024), which tries them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import nnls

from pfl_audit.attacks.inversion.batches.inputs import POSITION
from pfl_audit.attacks.inversion.input_span.basis import Basis
from pfl_audit.metrics.arrays import Floats, Integers

States = Callable[[Integers], Floats]
"""Sequences, int64 (batch, n, 7), to what the layer is given, float64 (batch, n, width)."""

_GUESSES: Final = 6
_SKETCH: Final = 48
"""Random directions in which replacements are compared."""
_SUM: Final = 1e3
"""Weight of the sums of one, over the largest change."""
_LEAST: Final = 1e-300


@dataclass(frozen=True, eq=False)
class Guess:
    """A sequence.

    Attributes:
        page: int64 (n, 7), places.
        excess: Largest one of its positions over what errors explain, about 1 for a page.
    """

    page: Integers
    excess: float


def page_with(
    anchor: Integers,
    options: Sequence[Integers],
    states: States,
    basis: Basis,
    rng: np.random.Generator,
    *,
    pictured: bool = False,
) -> Guess:
    """The page that has a place.

    Args:
        anchor: int64 (7,), the place.
        options: Places that are possible at each position of the page, int64 (k, 7) each, at least one.
        states: Inputs of the layer.
        basis: Their span.
        rng: Generator of the first guess and the random directions.
        pictured: Whether a picture that is not known adds the same to all positions.

    Returns:
        The guess that is nearest to the span. It is far from it where no page of this length has the place.
    """
    choices = [anchor[None] if some[0, POSITION] == anchor[POSITION] else some for some in options]
    at = np.concatenate([np.full(len(some), position) for position, some in enumerate(choices)])
    every = np.concatenate(choices)
    sketch = basis.outside @ rng.standard_normal((basis.outside.shape[1], _SKETCH)) / np.sqrt(_SKETCH)
    page = np.stack([some[rng.integers(len(some))] for some in choices])
    best, tried = Guess(page, float("inf")), set[bytes]()
    while len(tried) < _GUESSES and page.tobytes() not in tried:
        tried.add(page.tobytes())
        changed = np.repeat(page[None], len(every) + 1, axis=0)
        changed[np.arange(len(every)), at] = every
        found = states(changed)
        left = found / basis.scales @ sketch
        if pictured:
            left -= left.mean(axis=1, keepdims=True)
        left /= np.sqrt(np.square(basis.turned(found[-1])).sum(axis=1))[:, None]
        shares = shares_of(left[-1].ravel(), (left[:-1] - left[-1]).reshape(len(every), -1), at)
        own = [np.flatnonzero(at == position) for position in range(len(choices))]
        page = every[[some[shares[some].argmax()] for some in own]]
        guess = Guess(page, excess_of(basis, states(page[None])[0], pictured=pictured))
        best = min(best, guess, key=lambda each: each.excess)
    return best


def excess_of(basis: Basis, states: Floats, *, pictured: bool) -> float:
    """Largest excess of the positions of a sequence, states float64 (n, width)."""
    beside = basis.beside(states)
    if pictured:
        beside = beside - beside.mean(axis=0)
    return float(basis.excess(np.square(beside).sum(axis=1), np.square(basis.turned(states)).sum(axis=1)).max())


def shares_of(left: Floats, changes: Floats, at: Integers) -> Floats:
    """Shares of replacements, float64 (n,), whose changes, float64 (n, m), add up to what is left, float64 (m,)."""
    weight = _SUM * max(float(np.abs(changes).max(initial=0.0)), _LEAST)
    once = weight * (at[None] == np.arange(at.max() + 1)[:, None])
    system, wanted = np.concatenate([changes.T, once]), np.concatenate([-left, np.full(len(once), weight)])
    reduced = np.asarray(np.linalg.qr(np.concatenate([system, wanted[:, None]], axis=1), mode="r"), dtype=np.float64)
    matrix, right = reduced[:, :-1], reduced[:, -1]
    try:
        return np.asarray(nnls(matrix, right, maxiter=20 * len(at))[0])
    except RuntimeError:  # no convergence: the mixture without the bound
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0], dtype=np.float64)

"""Tokens of an update that holds adapters of the first attention, of models that add up tokens and positions.

An input is a multiple of w(token) + p(position) + ..., and directions that LayerNorm adds of its own. With what is
known taken out of the rows of dL/dA, the tokens explain what is left (``explanation``). Their coefficients are then
determined, and with the tokens taken out instead, so are those of the positions. An input has its coefficients once,
so that those of a token are the sums over its positions: which places a token at its positions, and shows an
explanation to be wrong whose tokens do not have together what the positions have together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.adapters.explanation import (
    Explanation,
    Levels,
    crowded,
    explain,
    in_errors,
    outside_of,
    room_in,
    silent,
    unsure_limits,
)
from pfl_audit.attacks.inversion.adapters.rows import Halves
from pfl_audit.attacks.inversion.analytic.assignment import assign
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.metrics.arrays import Floats, Integers

_MOST: Final = 3 / 4
"""Share of the width that positions may take."""
_LEAST: Final = 8
"""Positions below which no text is that short."""
_NOWHERE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class AddedUp:
    """Vectors that inputs are added up from, float64, with what LayerNorm leaves of each but for its length.

    Attributes:
        words: (vocabulary, width).
        positions: (places, width), in order.
        others: (n, width) each: what is taken out beside the positions.
        used: What these are, in words.
        more: (m, width), further vectors that may be added, and are looked for as tokens are.
        places: Number of positions of the text, where it is known.
    """

    words: Floats
    positions: Floats
    others: Sequence[Floats]
    used: Sequence[str]
    more: Floats
    places: int | None = None


@dataclass(frozen=True, eq=False)
class PlacedTokens:
    """Tokens of a text.

    Attributes:
        ids: int64 (n,), tokens at positions; -1 where unknown.
        present: int64 (m,), tokens that are certain, wherever they are, in rising order.
        limits: Why something is missing.
    """

    ids: Integers
    present: Integers
    limits: tuple[Limit, ...]


def placed_tokens(halves: Halves, parts: AddedUp, noise: Noise) -> PlacedTokens:
    """Find the tokens, and their positions.

    The number of positions is tried from the largest on: more than there are take directions, and are none of the text;
    fewer leave vectors that are no tokens.
    """
    if not len(halves.down):
        return without_tokens(silent(halves))
    rows, levels = in_errors(halves.down.double().numpy(), noise, halves.errors.numpy())
    decayed = halves.begun.double().numpy().reshape(-1, parts.words.shape[1])
    if len(decayed):
        used = (*parts.used, f"{len(decayed)} halves A, of which weight decay takes a share")
        parts = replace(parts, others=(*parts.others, decayed), used=used)
    taken, width, left, tried = 0, parts.words.shape[1], 0, 0
    for count in _counts(parts):
        free = outside_of([*parts.others, parts.positions[:count]])
        if not room_in(free):
            left, tried = free.shape[1], count
            continue
        found = explain(rows, levels, np.concatenate([parts.words, parts.more]), free, _NOWHERE)
        if found.ends and len(found.chosen):
            sums = _sums(rows, parts, count, found)
            if sums is not None and sums.balanced:
                return _placed(parts, found, sums, levels, noise)
        elif found.ends:
            if halves.first and len(decayed):  # known to be zero
                return without_tokens(silent(halves))
            why = Limit(Cause.NOISE, "tokens: errors explain all of the adapters' rows")
            return without_tokens(why)
        taken, left, tried = len(found.chosen), free.shape[1], count
    return without_tokens(crowded(taken, width, left, [*parts.used, f"{tried} positions"]))


def without_tokens(limit: Limit) -> PlacedTokens:
    """No tokens, and why."""
    return PlacedTokens(_NOWHERE, _NOWHERE, (limit,))


def _counts(parts: AddedUp) -> Iterator[int]:
    if parts.places is not None:
        yield parts.places
        return
    count = min(len(parts.positions), int(_MOST * parts.words.shape[1]))
    while count >= _LEAST:
        yield count
        count //= 2


@dataclass(frozen=True, eq=False)
class _Sums:
    """Coefficients of an explanation.

    Attributes:
        vectors: float64 (n, rows), of its vectors, in the order in which they were chosen.
        positions: float64 (places, rows), up to the last position that has any.
        balanced: Whether the tokens have together what the positions have together.
        lengths: Largest errors of coefficients over those of an entry of the rows: of vectors and of positions.
    """

    vectors: Floats
    positions: Floats
    balanced: bool
    lengths: tuple[float, float]


def _sums(rows: Floats, parts: AddedUp, count: int, found: Explanation) -> _Sums | None:
    """None where the positions' coefficients are not determined."""
    every = np.concatenate([parts.words, parts.more])[found.chosen]
    of_vectors = found.free @ np.linalg.pinv(every @ found.free)
    beside = outside_of([*parts.others, every])
    positions = parts.positions[:count] @ beside
    if np.linalg.matrix_rank(positions) < count:
        return None
    of_positions = beside @ np.linalg.pinv(positions)
    tokens = found.chosen < len(parts.words)
    apart = of_vectors[:, tokens].sum(axis=1) - of_positions.sum(axis=1)
    balanced = bool(np.linalg.norm(rows @ apart) <= found.edge * np.linalg.norm(apart))
    at = (rows @ of_positions).T
    sizes = np.linalg.norm(of_positions, axis=0)
    used = np.flatnonzero(np.linalg.norm(at, axis=1) > found.edge * sizes)
    last = int(used.max(initial=-1)) + 1
    lengths = float(np.linalg.norm(of_vectors, axis=0).max()), float(sizes[:last].max(initial=0.0))
    return _Sums((rows @ of_vectors).T, at[:last], balanced, lengths)


def _placed(parts: AddedUp, found: Explanation, sums: _Sums, levels: Levels, noise: Noise) -> PlacedTokens:
    words = found.chosen < len(parts.words)
    sure = found.chosen[words & found.sure]
    limits = list(unsure_limits(found, words, levels, noise))
    error = levels.entry * max(sums.lengths)
    even = Noise(error, 0.0, everywhere=False)
    at = assign(sums.vectors[words], sums.positions, 1, even, variances=np.full(len(sums.positions), error**2))
    own = np.where(at.rows[:, 0] >= 0, found.chosen[words][at.rows[:, 0]], -1)
    ids = np.where(at.sure & np.isin(own, sure), own, -1)
    if (ids < 0).any():
        words_of = f"tokens: which token is where is known of {int((ids >= 0).sum())} of {len(ids)} positions"
        limits.append(Limit(Cause.MIXED, f"{words_of}: more than one sample, or errors"))
    return PlacedTokens(ids, np.sort(sure), tuple(limits))

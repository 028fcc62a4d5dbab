"""Questions of a batch, up to the marker of the answer: tokens at all positions whose state is in the span.

A token is fixed that one question has. What replacing the others one by one changes is measured; the best mixture of
all replacements is the next guess, as for the pages of a batch (``batches.pages``). From there on single tokens are
replaced as long as that brings the state nearer to the span.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.batches.pages import shares_of
from pfl_audit.attacks.inversion.input_span.basis import Basis
from pfl_audit.metrics.arrays import Integers
from pfl_audit.models.text_decoder import TextDecoder

KEPT: Final = 64
"""Beginnings that are extended."""
_TRIES: Final = 24
"""Searches for each sample."""
_WORK: Final = 4e11
"""Multiplications of all searches for measuring each replacement once, at the most: they measure it about ten times."""
_GUESSES: Final = 6
"""Mixtures of one search."""
_FIT: Final = 1.3
"""Excess up to which nothing nearer is sought."""
_SEED: Final = 25
"""Seed of the searches' starts, fixed so that the same update gives the same result."""


def questions_in(places: Sequence[Integers], decoder: TextDecoder, basis: Basis, most: int) -> list[tuple[int, ...]]:
    """Beginnings that end with the marker of the answer, the nearest to the span first, at most KEPT.

    Args:
        places: For every position the tokens that may stand there, int64 (k,) each.
        basis: The span of ``crossing_inputs``.
        most: Number of samples.
    """
    rng, found = np.random.default_rng(_SEED), dict[tuple[int, ...], float]()
    once = sum(map(len, places)) * len(places) * 4 * len(basis.outside) ** 2
    for choices, at, token in islice(_starts(places, decoder, rng), max(1, min(_TRIES * most, int(_WORK / once)))):
        length = len(choices)
        if any(len(row) == length and row[at] == token for row, far in found.items() if far <= _FIT):
            continue
        fixed = [np.array([token]) if place == at else some for place, some in enumerate(choices)]
        row, far = _nearest(fixed, decoder, basis, rng)
        found[tuple(row.tolist())] = far
    return sorted(found, key=lambda row: (found[row], row))[:KEPT]


def _starts(
    places: Sequence[Integers], decoder: TextDecoder, rng: np.random.Generator
) -> Iterator[tuple[list[Integers], int, int]]:
    """Choices up to a marker of the answer, and a position with one of its tokens; lengths take turns."""
    each = []
    for last, tokens in enumerate(places):
        marks = [token for token in tokens.tolist() if decoder.answer_at([token]) is not None]
        if marks and last:
            choices = [*places[:last], np.array(marks)]
            open_ = [(at, int(token)) for at in range(last) if len(choices[at]) > 1 for token in choices[at]]
            pairs = [open_[at] for at in rng.permutation(len(open_))] or [(0, int(choices[0][0]))]
            each.append([(choices, at, token) for at, token in pairs])
    return (start for start in chain.from_iterable(zip_longest(*each)) if start is not None)


def _nearest(
    choices: Sequence[Integers], decoder: TextDecoder, basis: Basis, rng: np.random.Generator
) -> tuple[Integers, float]:
    """One token at every position, int64 (n,), and the excess of their state."""
    at = np.concatenate([np.full(len(some), place) for place, some in enumerate(choices)])
    every = np.concatenate(choices)
    row, best, far = np.array([rng.choice(some) for some in choices]), np.zeros(0, dtype=np.int64), np.inf
    tried = set[bytes]()
    while len(tried) < _GUESSES and row.tobytes() not in tried and far > _FIT:
        tried.add(row.tobytes())
        rows = np.repeat(row[None], len(every) + 1, axis=0)
        rows[np.arange(len(every)), at] = every
        states = decoder.crossing_inputs(rows)
        excess = basis.excess_of(states)
        if excess.min() < far:
            best, far = rows[excess.argmin()], float(excess.min())
        left = basis.beside(states) / np.sqrt(np.square(basis.turned(states[-1])).sum())
        shares = shares_of(left[-1], left[:-1] - left[-1], at)
        row = np.array([every[own][shares[own].argmax()] for own in (at == place for place in range(len(choices)))])
    before = np.inf
    while _FIT < far < before:
        before = far
        for place in rng.permutation([place for place, some in enumerate(choices) if len(some) > 1]):
            rows = np.repeat(best[None], len(choices[place]), axis=0)
            rows[:, place] = choices[place]
            excess = basis.excess_of(decoder.crossing_inputs(rows))
            if excess.min() < far:
                best, far = rows[excess.argmin()], float(excess.min())
    return best, far

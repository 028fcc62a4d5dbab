"""Question and answer of each sample of a batch.

What the first cross-attention's queries are made of at a position depends on the token there and on all before it, and
on nothing of the page. The beginning of a sample is therefore in the span of these inputs, and one that is put together
from several samples is not. The gradient is strong from the marker of the answer on: whole questions are sought that
are in the span there (``questions``), and extended by every token that may stand at the next position.

Source: whole sequences by the span of a later layer are DAGER's (Petrov et al., DAGER: Exact gradient inversion for
large language models, 2024), whose later layer is the second one, which depends on the page here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from typing import Final

import numpy as np
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.donut_text.questions import KEPT, questions_in
from pfl_audit.attacks.inversion.input_span.basis import Basis, bases_of
from pfl_audit.metrics.arrays import Integers
from pfl_audit.models.text_decoder import TextDecoder

Row = tuple[int, ...]

_EXPLAINED: Final = log(1.1)
"""Mean logarithm of the excess that errors explain: a sample has at most as much, a sequence of no sample has more."""
_APART: Final = 2.0
"""Ratio of this mean of the next sequence to that of the last sample, from which on the samples are certain."""
_NEAR: Final = log(1.01)
"""Smaller means are alike."""


@dataclass(frozen=True)
class Samples:
    """Samples of an update.

    Attributes:
        certain: What the decoder read of each, distinct and whole, where all others are much farther from the span.
        candidates: Number of the other sequences that were found.
        limits: Why samples are missing.
    """

    certain: tuple[Row, ...]
    candidates: int
    limits: tuple[Limit, ...]


def samples_of(
    gradient: Tensor | None,
    decoder: TextDecoder,
    options: Sequence[Sequence[int]],
    present: frozenset[int],
    most: int,
    noise: Noise,
) -> Samples:
    """Separate the samples of an update.

    Args:
        gradient: Gradient of the decoder's parameter ``crossing``, (width, width); None if it was not shared.
        options: For every position the tokens that may stand there.
        present: All tokens of the update.
        most: Number of its samples.
        noise: Errors of the gradient.
    """
    if gradient is None:
        return _unknown(missing("the queries of the first cross-attention", "no token's sample is known"))
    if not options or not all(options):
        return _unknown(Limit(Cause.MIXED, "samples: the tokens of some positions are unknown"))
    basis = bases_of(gradient.double().numpy(), noise.rounding, noise.sigma)[0]
    if not basis.informative:
        words = f"samples: {basis.rank} directions of {gradient.shape[1]} are taken, too many tokens for the width"
        return _unknown(Limit(Cause.CROWDED, words))
    places = [np.array(some, dtype=np.int64) for some in options]
    found = _extended(questions_in(places, decoder, basis, most), places, decoder, basis)
    order = sorted(found, key=lambda row: (found[row], row))
    means = [*(found[row] for row in order), inf]
    certain = order[: next((at for at in range(1, min(most, len(order)) + 1) if _apart(*means[at - 1 : at + 1])), 0)]
    if 1 < most == len(certain) or present <= frozenset[int]().union(*certain):
        return Samples(tuple(certain), 0, ())
    words = f"samples: {len(certain)} of {most} at the most are certain, and lack tokens of the update"
    return Samples(tuple(certain), len(order) - len(certain), (Limit(Cause.MIXED, words),))


def _unknown(limit: Limit) -> Samples:
    return Samples((), 0, (limit,))


def _apart(last: float, following: float) -> bool:
    return last <= _EXPLAINED < following and following >= _APART * max(last, _NEAR)


def _extended(
    questions: Sequence[Row], places: Sequence[Integers], decoder: TextDecoder, basis: Basis
) -> dict[Row, float]:
    """Sequences that end an answer, with the mean logarithm of their excess from the marker of the answer on."""
    begun: dict[Row, list[float]] = {}
    found: dict[Row, float] = {}
    for at, tokens in enumerate(places):
        begun |= {row: [] for row in questions if len(row) == at}
        longer = [(*row, token) for row in begun for token in tokens.tolist()]
        if not longer:
            continue
        excess = np.log(np.maximum(basis.excess_of(decoder.crossing_inputs(np.array(longer))), 1.0)).tolist()
        means = {row: [*begun[row[:-1]], far] for row, far in zip(longer, excess, strict=True)}
        found |= {row: sum(each) / len(each) for row, each in means.items() if row[-1] == decoder.end}
        open_ = [row for row in means if row[-1] != decoder.end]
        begun = {row: means[row] for row in sorted(open_, key=lambda row: sum(means[row]))[:KEPT]}
    return found

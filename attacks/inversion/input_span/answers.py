"""Answers of all pages of an update, token by token in their order, by the span of the decoder's first cross-attention.

What the queries Q of that layer are made of depends, by a causal attention, on the tokens of the answer up to their
place, and on nothing of the page:

    dL/dQ = sum_p g_p y_p^T,   y_p ~ gain (e_p + sum_h O_h sum_{j <= p} softmax(q_p k_j + bias(j - p)) v_j)

So the beginning of an answer is in the span at every place, and one that is put together from several answers is not.
From the start, which every sample has, each token is tried in the next place, and those in the span are continued.

Source: whole sequences by the span of a later layer, prefix by prefix, are DAGER's (Petrov et al., DAGER: Exact
gradient inversion for large language models, 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.rows import rounding_in
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.analytic.tables import array_of, shared_tensors
from pfl_audit.attacks.inversion.input_span.basis import Basis, bases_of
from pfl_audit.attacks.inversion.input_span.corners import needed
from pfl_audit.attacks.inversion.input_span.gap import first_apart
from pfl_audit.attacks.inversion.input_span.recovery import noise_in
from pfl_audit.attacks.inversion.input_span.sequence import Parts, first_layer
from pfl_audit.metrics.arrays import Floats, Integers
from pfl_audit.models.word_tables import SumsWordsAndBoxes

Row = tuple[int, ...]

_NULL: Final = 512
"""Random tokens, hardly any of which is in an answer."""
_NEAR: Final = 4.0
"""Times the excess of known inputs up to which a beginning is near; of those that errors explain it is about 1."""
_MOST: Final = 64
"""Beginnings that are continued at a time, the nearest to the span."""
_LONGEST: Final = 64
"""Tokens of an answer."""
_SEED: Final = 22


@dataclass(frozen=True)
class Answers:
    """What is certain of the answers.

    Attributes:
        certain: Tokens of each different answer in order, from its first one on; a signal below the errors ends it.
        limits: Why something is missing.
    """

    certain: tuple[Row, ...]
    limits: tuple[Limit, ...] = ()


def answers_in(
    update: Mapping[str, Tensor],
    tables: SumsWordsAndBoxes,
    weights: Mapping[str, Tensor],
    errors: Mapping[str, Tensor],
) -> Answers:
    """Find the answers of all samples.

    Args:
        update: By parameter.
        weights: The model's, by parameter, before the update.
        errors: As of ``rounding_of_matrices``, of what the decoder's names hold.
    """
    names = tables.decoder()
    queried = shared_tensors(update, weights, names.feed[:1])
    noise = noise_in(update, weights, tables.summed(), queried.get(names.feed[0]))
    states, queries = (
        _shared(update, weights, endings, noise, errors)
        for endings in ((names.query, names.key, names.value), names.feed)
    )
    if states is None or queries is None:
        return Answers((), (missing("the decoder's first layer", "the answers are unknown"),))
    layer = first_layer(names, tables.causal_bias, weights)
    words = array_of(weights, tables.word.name)
    chance = np.random.default_rng(_SEED).integers(len(words), size=_NULL)
    known, null = (words[some] * layer.norm for some in ([tables.start], chance))
    basis, apart = first_apart(states.bases(noise), known, null[None], len(words), lower=True)
    if not apart.separated:
        return _not_apart(basis)
    among = np.flatnonzero(basis.excess_of(words * layer.norm) < apart.low)
    among = among[among != tables.start]  # any number of it in a row is in the span
    every = np.concatenate([[tables.start], among, chance])
    parts = layer.parts_of(words[every], np.diag(layer.second))
    first, options = np.zeros(1, np.int64), np.arange(1, len(among) + 1)
    known, null = parts.at(first, 0, first), _behind(parts, (0,), np.arange(len(among) + 1, len(every)))
    basis, apart = first_apart(queries.bases(noise), known, null[None], len(among) * _MOST, lower=True)
    if not apart.separated:
        return _not_apart(basis)
    near, vectors = _near(parts, basis, min(apart.low, _NEAR * apart.high), options)
    there = needed(np.concatenate([known, vectors]), queries.gradient)[1:]
    begun = {row[:end] for row, sure in zip(near, there, strict=True) if sure for end in range(2, len(row) + 1)}
    whole = sorted(row for row in begun if not any(row == other[:-1] for other in begun))
    limits = () if whole and begun >= _leaves(near) else _unknown(Cause.NOISE, "errors leave tokens open").limits
    return Answers(tuple(tuple(int(every[at]) for at in row[1:]) for row in whole), limits)


def _near(parts: Parts, basis: Basis, most: float, options: Integers) -> tuple[list[Row], Floats]:
    """Beginnings that are near the span at each place, and what the next layer is given at their last one.

    Args:
        most: Excess below which one is near.
        options: Numbers of the inputs that are tried; 0 is the start.

    Returns:
        The numbers of their inputs, and float64 (n, width).
    """
    found, vectors, begun = list[Row](), list[Floats](), [(0,)]
    for _ in range(_LONGEST):
        behind = np.concatenate([_behind(parts, row, options) for row in begun])
        excess = basis.excess_of(behind)
        nearest = np.argsort(excess)[:_MOST]
        nearest = nearest[excess[nearest] < most]
        begun = [(*begun[at // len(options)], int(options[at % len(options)])) for at in nearest.tolist()]
        found += begun
        vectors.append(behind[nearest])
        if not begun:
            break
    return found, np.concatenate(vectors)


def _behind(parts: Parts, row: Row, options: Integers) -> Floats:
    """What the next layer is given behind a beginning, float64 (n, width), with each of these inputs there."""
    return parts.at(np.array([*row, 0]), len(row), options)


@dataclass(frozen=True, eq=False)
class _Shared:
    """Gradients of matrices that are given the same.

    Attributes:
        gradient: float64 (outputs, width), one below the other.
        errors: float64 (outputs,), standard deviation of what is added to an entry of each row.
    """

    gradient: Floats
    errors: Floats

    def bases(self, noise: Noise) -> list[Basis]:
        """The span of what they are given."""
        return bases_of(self.gradient, noise.rounding, self.errors)


def _shared(
    update: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    endings: Sequence[str],
    noise: Noise,
    errors: Mapping[str, Tensor],
) -> _Shared | None:
    """Those that were shared; None if none was."""
    parts = shared_tensors(update, weights, endings)
    added = [np.hypot(noise.sigma, rounding_in(errors, ending, len(part))) for ending, part in parts.items()]
    return _Shared(torch.cat(list(parts.values())).double().numpy(), np.concatenate(added)) if parts else None


def _leaves(rows: Sequence[Row]) -> set[Row]:
    """Those that no other continues."""
    return set(rows) - {row[:-1] for row in rows}


def _not_apart(basis: Basis) -> Answers:
    if basis.rank and not basis.informative:
        return _unknown(Cause.CROWDED, "too many tokens of answers for the width")
    return _unknown(Cause.NOISE, "their tokens cannot be separated from others, because the update has errors")


def _unknown(cause: Cause, words: str) -> Answers:
    return Answers((), (Limit(cause, f"answers: {words}"),))

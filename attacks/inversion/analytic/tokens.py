"""Tokens and token types by position, from the gradients of their tables.

Row v of the word table's gradient is the sum of the signals of the positions where v is:
dL/dW[v] = sum_t [token_t = v] s_t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.assignment import assign
from pfl_audit.attacks.inversion.analytic.limits import mixture
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.analytic.signals import Sums, sums_of, without
from pfl_audit.metrics.arrays import Floats, Integers
from pfl_audit.models.word_encoder import EmbeddingLayout

_DRAWS = 20
_SMALL = 1e-5
"""Shares of a norm below this are rounding (float32)."""
_MANY = 2048


def output_states(word: Tensor) -> Tensor | None:
    """An orthonormal basis of what the output layer adds to a word table's gradient.

    Args:
        word: (vocabulary, width).

    Returns:
        float64 (dimensions, width), or None where most rows are zero, or where no half of the width holds most of
        them, as under noise.
    """
    rng = torch.Generator().manual_seed(0)
    rows = word[torch.randperm(len(word), generator=rng)[:_MANY]].double()
    rows = rows[rows.any(dim=1)]
    if 2 * len(rows) < min(len(word), _MANY):
        return None
    rows = rows / rows.norm(dim=1, keepdim=True)
    size = 2
    while size <= min(word.shape[1], len(rows)) // 2:
        draws = [_span(rows[torch.randperm(len(rows), generator=rng)[:size]]) for _ in range(_DRAWS)]
        fitting = [basis for basis in draws if len(basis) < size and _holds_most(basis, rows)]
        if fitting:
            return min(fitting, key=len)
        size *= 2
    return None


def _span(rows: Tensor) -> Tensor:
    _, values, basis = torch.linalg.svd(rows, full_matrices=False)
    return basis[: int((values > _SMALL * values[0]).sum())]


def _holds_most(basis: Tensor, rows: Tensor) -> bool:
    rest = rows - (rows @ basis.T) @ basis
    return float((rest.norm(dim=1) < _SMALL).double().mean()) > 0.5


_TIED_ROUNDING = 1e-5


@dataclass(frozen=True)
class Reading:
    """Values of every position, solved from one table.

    Attributes:
        values: int64 (positions, readings), -1 where unknown.
        sure: bool (positions,), whether no other reading comes near.
        residual: Share of the table that is left unexplained.
        complete: Whether all of it is explained to within the noise.
        present: int64, the rows that were looked up at all.
    """

    values: Integers
    sure: NDArray[np.bool_]
    residual: float
    complete: bool
    present: Integers


def read_tokens(word: Tensor, signals: Floats, layout: EmbeddingLayout, noise: Noise) -> tuple[Reading, float]:
    """Solve for the tokens.

    Args:
        word: Gradient of the word table.
        signals: float64 (n, width).
        layout: Embedding sum of the model. The row of its padding token has no gradient, so a position that matches no
            row is padding.

    Returns:
        One reading a position, and how far the table is from being made of these signals (``limits.mixture``).
    """
    sums, taken, signals = _untied(word, signals, noise)
    found = assign(sums.values, signals, 1, noise, taken=taken)
    values = np.where(found.rows >= 0, sums.rows[found.rows] if len(sums.rows) else -1, -1)
    sure = found.sure
    if found.complete and layout.padding_shows:
        sure = sure | (found.rows[:, 0] < 0)
        values[found.rows < 0] = layout.pad
    read = Reading(values, sure, found.residual, found.complete, sums.rows)
    return read, mixture(sums.values, signals, noise)


def _untied(word: Tensor, signals: Floats, noise: Noise) -> tuple[Sums, Floats | None, Floats]:
    """The sums, the norms of what an output layer had added to them, and the signals to look for."""
    states = None if noise.everywhere else output_states(word)
    if states is None:
        return sums_of(word, signals, noise), None, signals
    values, basis = word.double().numpy(), states.numpy()
    free, sizes = without(values, basis), np.linalg.norm(values, axis=1)
    rows = np.flatnonzero(np.linalg.norm(free, axis=1) > _TIED_ROUNDING * sizes)
    return Sums(rows, free[rows]), sizes[rows], without(signals, basis)


def read_types(types: Tensor, signals: Floats, padding: NDArray[np.bool_], noise: Noise) -> Reading:
    """Solve for the token types, which are one type up to some position and another from there on.

    Args:
        types: Gradient of the token-type table.
        signals: float64 (n, width).
        padding: bool (n,), positions of padding tokens, which are of the first type.

    Returns:
        One reading a position; nothing but -1 where the types do not stand so.
    """
    values = types.double().numpy()
    texts = np.flatnonzero(~padding)
    head = np.cumsum(np.vstack([np.zeros((1, signals.shape[1])), signals[texts]]), axis=0)
    last = min(1, len(values) - 1)
    wanted = values[last] if last else head[-1]
    misses = np.linalg.norm(head[-1] - head - wanted, axis=1)
    cut = int(misses.argmin())
    mass = float(np.linalg.norm(signals, axis=1).sum())
    fits = misses[cut] ** 2 <= noise.most(noise.variance(len(texts) + 1, mass, signals.shape[1]), signals.shape[1])
    read = np.full((len(signals), 1), -1)
    if fits:
        read[:] = 0
        read[texts[cut:]] = last
    residual = float(misses[cut] / max(np.linalg.norm(head[-1]), 1e-300))
    return Reading(read, np.full(len(signals), fits), residual, bool(fits), np.flatnonzero(values.any(axis=1)))

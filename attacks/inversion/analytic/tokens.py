"""Tokens and token types by position, from the gradients of their tables.

Row v of the word table's gradient is the sum of the signals of the positions where v is:
dL/dW[v] = sum_t [token_t = v] s_t.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.assignment import assign
from pfl_audit.attacks.inversion.analytic.limits import mixture
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.analytic.signals import Sums, sums_of, without
from pfl_audit.metrics.arrays import Floats, Integers

_ROUNDED = 5.0
"""Multiple of the largest direction's rounding below which a direction is rounding."""
_ENOUGH = 4
"""Rows per direction that suffice to find the common subspace."""
_ALONE = 0.9
"""Leverage of a row from which on it has a direction to itself."""
_LEFT = 50.0
"""Multiple of a row's rounding below which it counts as zero."""


@dataclass(frozen=True)
class Reading:
    """Values of every position, solved from one table.

    Attributes:
        values: int64 (positions, readings), -1 where unknown.
        sure: bool (positions,), whether no other reading comes near.
        complete: Whether all of it is explained to within the noise.
        present: int64, the rows that were looked up at all.
    """

    values: Integers
    sure: NDArray[np.bool_]
    complete: bool
    present: Integers


def read_tokens(
    word: Tensor, signals: Floats, noise: Noise, *, tied: bool, scale: float = 1.0, padding: int | None = None
) -> tuple[Reading, float]:
    """Solve for the tokens.

    Args:
        word: Gradient of the word table.
        signals: float64 (n, width).
        tied: Whether the table is the output layer too.
        scale: Factor of the embedding.
        padding: Token whose row has no gradient, so that a position that matches no row is one.

    Returns:
        One reading a position, and how far the table is from being made of these signals (``limits.mixture``). Where
        noise hides a part of the output layer no reading is sure, and that measure is 1.
    """
    lifted, spread, taken, hidden = scale * signals, 1.0, None, tied and noise.everywhere
    if not tied:
        sums = sums_of(word, signals, noise)
        spread = mixture(sums.values / scale, signals, noise)
    else:
        basis = _output_states(word, noise)
        sums, taken = _beside_output(word, basis, lifted, noise)
        lifted = without(lifted, basis)
        if not hidden:
            spread = mixture(sums.values, lifted, replace(noise, rounding=_ROUNDED * noise.rounding))
    variances = np.full(len(signals), (scale * noise.sigma) ** 2)
    found = assign(sums.values, lifted, 1, noise, variances=variances, taken=taken)
    values = np.where(found.rows >= 0, sums.rows[found.rows] if len(sums.rows) else -1, -1)
    sure, complete = found.sure & (not hidden), found.complete and not hidden
    if complete and padding is not None:
        sure = sure | (found.rows[:, 0] < 0)
        values[found.rows < 0] = padding
    return Reading(values, sure, complete, sums.rows), spread


def _output_states(word: Tensor, noise: Noise) -> Floats:
    """Orthonormal basis of the space of the output layer's part of the rows, float64 (dimensions, width).

    A quiet row that has a direction to itself holds a weak signal and is left out.
    """
    sizes = word.norm(dim=1)
    quiet = word[sizes <= sizes.median()]
    quiet = quiet[:: max(1, len(quiet) // (_ENOUGH * word.shape[1]))].double()
    while True:
        left, values, basis = torch.linalg.svd(quiet, full_matrices=False)
        loud = 1.1 * noise.sigma * (len(quiet) ** 0.5 + word.shape[1] ** 0.5) if noise.everywhere else 0.0
        held = values > max(loud, _ROUNDED * noise.rounding * float(values[0]))
        alone = left[:, held].square().sum(dim=1) > _ALONE
        if alone.all() or not alone.any():
            return basis[held].numpy()
        quiet = quiet[~alone]


def _beside_output(word: Tensor, basis: Floats, signals: Floats, noise: Noise) -> tuple[Sums, Floats]:
    """Rows with more than the output layer's contribution, with that contribution removed, and their norms before."""
    values = word.double().numpy()
    sizes, rest = np.linalg.norm(values, axis=1), without(values, basis)
    if noise.everywhere:
        sums = sums_of(torch.from_numpy(rest), signals, noise)
    else:
        rows = np.flatnonzero(np.linalg.norm(rest, axis=1) > _LEFT * noise.rounding * sizes)
        sums = Sums(rows, rest[rows])
    return sums, sizes[sums.rows]


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
    return Reading(read, np.full(len(signals), fits), bool(fits), np.flatnonzero(values.any(axis=1)))

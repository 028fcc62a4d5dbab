"""Tokens from the rows of the embedding's gradient, each the sum of the signals of its token's positions.

    dL/dE[v] = scale sum_p [token_p = v] s_p  +  sum_m delta_mv y_m,     dL/dP[p + offset] = s_p

The second sum is there where the embedding is the output layer too: one state y_m a scored token, in every row.
Most words stand nowhere in the text, so the lower half of the rows spans these states, and what is orthogonal to
them is as without an output layer. Noise hides those of them that tell the words hardly apart.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.assignment import assign
from pfl_audit.attacks.inversion.analytic.limits import mixture
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.analytic.signals import Sums, sums_of, without
from pfl_audit.attacks.inversion.analytic.tokens import Reading

Floats = NDArray[np.float64]

_ROUNDED = 5.0
"""Multiple of the largest direction's rounding below which a direction is rounding."""
_ENOUGH = 4
"""Rows per direction that suffice to find the common subspace."""
_ALONE = 0.9
"""Leverage of a row from which on it has a direction to itself."""
_LEFT = 50.0
"""Multiple of a row's rounding below which it counts as zero."""


def read_rows(word: Tensor, signals: Floats, scale: float, noise: Noise, *, tied: bool) -> tuple[Reading, float]:
    """Solve for the tokens.

    Args:
        word: Gradient of the embedding.
        signals: float64 (n, width), of the positions.
        scale: Factor of the embedding.
        tied: Whether the embedding is the output layer too.

    Returns:
        One reading a position, and how far the rows are from being made of these signals (``limits.mixture``). Where
        noise hides a part of the output layer no reading is sure, and that measure is 1.
    """
    lifted, spread, taken, hidden = scale * signals, 1.0, None, tied and noise.everywhere
    variances = np.full(len(signals), (scale * noise.sigma) ** 2)
    if not tied:
        sums = sums_of(word, signals, noise)
        spread = mixture(sums.values / scale, signals, noise)
    else:
        basis = _output_states(word, noise)
        sums, taken = _free(word, basis, lifted, noise)
        lifted = without(lifted, basis)
        if not hidden:
            spread = mixture(sums.values, lifted, replace(noise, rounding=_ROUNDED * noise.rounding))
    found = assign(sums.values, lifted, 1, noise, variances=variances, taken=taken)
    values = np.where(found.rows >= 0, sums.rows[found.rows] if len(sums.rows) else -1, -1)
    sure, complete = found.sure & (not hidden), found.complete and not hidden
    return Reading(values, sure, found.residual, complete, sums.rows), spread


def _output_states(word: Tensor, noise: Noise) -> Floats:
    """What the output layer's part of the rows lies in: an orthonormal basis, float64 (dimensions, width).

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
            kept: Floats = basis[held].numpy()
            return kept
        quiet = quiet[~alone]


def _free(word: Tensor, basis: Floats, signals: Floats, noise: Noise) -> tuple[Sums, Floats]:
    """Rows in which more stands than the output layer's part, without it; and what they measured before."""
    values = word.double().numpy()
    sizes, rest = np.linalg.norm(values, axis=1), without(values, basis)
    if noise.everywhere:
        sums = sums_of(torch.from_numpy(rest), signals, noise)
    else:
        rows = np.flatnonzero(np.linalg.norm(rest, axis=1) > _LEFT * noise.rounding * sizes)
        sums = Sums(rows, rest[rows])
    return sums, sizes[sums.rows]

"""Tensors of a gradient that depend on the text, found by name and checked against the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.assignment import assign
from pfl_audit.attacks.inversion.analytic.limits import mixture
from pfl_audit.attacks.inversion.analytic.noise import Noise, noise_of
from pfl_audit.attacks.inversion.analytic.signals import Sums, signals_of, sums_of, without
from pfl_audit.attacks.inversion.analytic.tables import find_tensor
from pfl_audit.attacks.inversion.analytic.tokens import Reading
from pfl_audit.errors import AuditError
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.text_decoder import FirstLayer

_LOUD = 30.0
"""Times rounding, from which on it is noise."""


@dataclass(frozen=True)
class Tensors:
    """Gradients as shared; None where none was shared or all of it is zero.

    Attributes:
        word: (vocabulary, width), of the embedding, with the output layer's part where the two are tied.
        position: (offset + places, width).
        attention: float64 (rows, width), of the first layer's queries, keys and values, one below the other.
    """

    word: Tensor | None
    position: Tensor | None
    attention: Tensor | None

    @property
    def some(self) -> bool:
        """Whether any was shared."""
        return any(each is not None for each in (self.word, self.position, self.attention))


def read_tensors(gradient: Mapping[str, Tensor], decoder: FirstLayer) -> Tensors:
    """Pick the tensors out of a gradient.

    Args:
        gradient: Gradient by the names of the parameters; a prefix before a known name is ignored.
        decoder: First layer of the network.

    Raises:
        AuditError: A tensor of another shape than the network's, one that is not of real numbers or holds NaN or
            infinity, two of one name, or none that speaks of the text.
    """
    found = shared_tensors(gradient, decoder)
    if not found.some:
        names = decoder.parameters
        raise AuditError(
            f"the gradient holds nothing of {names.word}, {names.position} or {names.attention[-1]}, or zeros only",
            "Take the gradient before frozen layers are left out: one of them is needed",
        )
    return found


def shared_tensors(gradient: Mapping[str, Tensor], decoder: FirstLayer) -> Tensors:
    """As ``read_tensors``, where none may be shared."""
    names, shape = decoder.parameters, (len(decoder.embedding), decoder.width)
    word = find_tensor(gradient, names.word, shape)
    if word is None and decoder.tied:
        word = find_tensor(gradient, names.output, shape)
    position = find_tensor(gradient, names.position, tuple(decoder.positions.shape))
    square = (decoder.width, decoder.width)
    parts = [find_tensor(gradient, name, square) for name in names.attention]
    attention = [part.double() for part in parts if part is not None]
    return Tensors(word, position, torch.cat(attention) if attention else None)


def find_noise(tensors: Tensors, decoder: FirstLayer) -> Noise:
    """Estimate the gradient's noise by rows that no text looks up.

    Those are the positions before the offset; where no position table is, the padding token's row, unless it
    belongs to the output layer too; and where there is nothing else, the direction of the attention's gradient that
    holds least, which takes fewer tokens than the decoder is wide.
    """
    word, position, attention = tensors.word, tensors.position, tensors.attention
    given = next(each for each in (position, word, attention) if each is not None)
    rounding = noise_of((), given, None).rounding
    if position is not None:
        quiet = position[: decoder.offset]
        if not quiet.any():
            return noise_of((), position, None if word is None or decoder.tied else word / decoder.scale)
    elif word is not None and not decoder.tied:
        quiet = word[decoder.pad]
    elif attention is not None:
        least = least_noise(attention)
        return Noise(least, rounding, everywhere=least > _LOUD * rounding * size_of(attention))
    else:
        return Noise(0.0, rounding, everywhere=False)
    sigma = size_of(quiet)
    if position is not None and sigma:
        count = len(signals_of(position, decoder.offset, Noise(sigma, rounding, everywhere=True)))
        sigma = size_of(torch.cat([quiet, position[decoder.offset + count :]]))
    return Noise(sigma, rounding, everywhere=sigma > 0)


def least_noise(attention: Tensor) -> float:
    """Noise of each entry, by the direction that holds least: right where fewer tokens were seen than directions."""
    rows, width = attention.shape
    return float(torch.linalg.svdvals(attention)[-1]) / (sqrt(rows) - sqrt(width) + 1)


def size_of(tensor: Tensor) -> float:
    """Root of the mean square."""
    return float(tensor.double().square().mean().sqrt())


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
            return basis[held].numpy()
        quiet = quiet[~alone]


def _free(word: Tensor, basis: Floats, signals: Floats, noise: Noise) -> tuple[Sums, Floats]:
    """Rows with more than the output layer's contribution, with that contribution removed, and their norms before."""
    values = word.double().numpy()
    sizes, rest = np.linalg.norm(values, axis=1), without(values, basis)
    if noise.everywhere:
        sums = sums_of(torch.from_numpy(rest), signals, noise)
    else:
        rows = np.flatnonzero(np.linalg.norm(rest, axis=1) > _LEFT * noise.rounding * sizes)
        sums = Sums(rows, rest[rows])
    return sums, sizes[sums.rows]

"""Tensors of a gradient that depend on the text, found by name and checked against the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.noise import Noise, noise_of
from pfl_audit.attacks.inversion.analytic.signals import signals_of
from pfl_audit.attacks.inversion.analytic.tables import find_tensor
from pfl_audit.errors import AuditError
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

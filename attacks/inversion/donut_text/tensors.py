"""The few tensors of a gradient that speak of the text, found by name and held against the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from pfl_audit.attacks.inversion.analytic.noise import Noise, noise_of
from pfl_audit.attacks.inversion.analytic.tables import find_tensor
from pfl_audit.attacks.inversion.donut_text.decoder import Decoder
from torch import Tensor

from pfl_audit.errors import AuditError

_WORD = "decoder.model.decoder.embed_tokens.weight"
_OUTPUT = "decoder.lm_head.weight"
_POSITION = "decoder.model.decoder.embed_positions.weight"
_ATTENTION = "decoder.model.decoder.layers.0.self_attn.{}_proj.weight"


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


def read_tensors(gradient: Mapping[str, Tensor], decoder: Decoder) -> Tensors:
    """Pick the tensors out of a gradient.

    Args:
        gradient: By the names of the parameters; whatever stands before a known name is ignored.
        decoder: Of the network.

    Raises:
        AuditError: A tensor of another shape than the network's, one that is not of real numbers or holds NaN or
            infinity, two of one name, or none that speaks of the text.
    """
    shape = (len(decoder.embedding), decoder.width)
    word = find_tensor(gradient, _WORD, shape)
    if word is None and decoder.tied:
        word = find_tensor(gradient, _OUTPUT, shape)
    position = find_tensor(gradient, _POSITION, tuple(decoder.positions.shape))
    square = (decoder.width, decoder.width)
    parts = [find_tensor(gradient, _ATTENTION.format(kind), square) for kind in "qkv"]
    attention = [part.double() for part in parts if part is not None]
    if word is None and not attention:
        raise AuditError(
            f"the gradient holds neither {_WORD} nor {_ATTENTION.format('v')}, or zeros only",
            "Take the gradient before frozen layers are left out: one of the two is needed",
        )
    return Tensors(word, position, torch.cat(attention) if attention else None)


def find_noise(tensors: Tensors, decoder: Decoder) -> Noise:
    """How exact the gradient is, by rows that no text looks up.

    Those are the positions before the offset; where no position table is, the padding token's row, unless it
    belongs to the output layer too; and where there is nothing else, the direction of the attention's gradient that
    holds least, which takes fewer tokens than the decoder is wide.
    """
    word, position, attention = tensors.word, tensors.position, tensors.attention
    if position is not None:
        quiet = position[: decoder.offset].double()
        if not quiet.any():
            balanced = None if word is None or decoder.tied else word / decoder.scale
            return noise_of((), position, balanced)
        return Noise(_size(quiet), noise_of((), position, None).rounding, everywhere=True)
    if word is not None and not decoder.tied:
        sigma, rounding = _size(word[decoder.pad].double()), noise_of((), word, None).rounding
        return Noise(sigma, rounding, everywhere=sigma > 0)
    if attention is None:
        return Noise(0.0, noise_of((), word, None).rounding, everywhere=False) if word is not None else _EXACT
    rounding = noise_of((), attention, None).rounding
    rows, width = attention.shape
    least = float(torch.linalg.svdvals(attention)[-1]) / (rows**0.5 - width**0.5 + 1)
    return Noise(least, rounding, everywhere=least > _LOUD * rounding * _size(attention))


def _size(tensor: Tensor) -> float:
    return float(tensor.square().mean().sqrt())


_LOUD = 30.0

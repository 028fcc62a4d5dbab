"""What the observer knows of a Donut's decoder, and what any token in any place looks like to its first layer.

    e(v, p) = scale E[v] + P[p + offset],   x = LN(e),   h = LN'(x)

LN stands behind the embeddings and LN' before the first self-attention, whose projections see h. The scale is
sqrt(d_model) or 1, the offset 2: the first two rows of P are never looked up. Read off transformers' modeling_mbart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pfl_audit.errors import AuditError

Norm = tuple[Tensor, Tensor, float]
"""Weight and bias, float64 (width,), and epsilon."""


@dataclass(frozen=True)
class Decoder:
    """The first weights of a decoder.

    Attributes:
        embedding: (vocabulary, width).
        positions: (offset + places, width).
        behind: The norm behind the embeddings.
        before: The norm before the first self-attention.
        scale: Of the embedding.
        offset: Row of the first position.
        pad: Its row of the embedding gets no gradient.
        tied: Whether the embedding is the output layer as well.
    """

    embedding: Tensor
    positions: Tensor
    behind: Norm
    before: Norm
    scale: float
    offset: int
    pad: int
    tied: bool

    @property
    def width(self) -> int:
        """Of the decoder."""
        return int(self.embedding.shape[1])

    @property
    def places(self) -> int:
        """Tokens at most."""
        return len(self.positions) - self.offset

    def words(self, tokens: Tensor) -> Tensor:
        """The part of e that is the token's: tokens int64 (n,), float64 (n, width)."""
        return self.scale * self.embedding[tokens].double()

    def wheres(self, places: Tensor) -> Tensor:
        """The part of e that is the place's, from -offset on: places int64 (n,), float64 (n, width)."""
        return self.positions[places + self.offset].double()

    def seen(self, sums: Tensor) -> Tensor:
        """What the first self-attention makes its queries, keys and values of: h of e, float64 (..., width)."""
        for weight, bias, epsilon in (self.behind, self.before):
            sums = functional.layer_norm(sums, weight.shape, weight, bias, epsilon)
        return sums


def decoder_of(network: Any) -> Decoder:
    """Take a network's decoder.

    Args:
        network: A VisionEncoderDecoderModel of DonutSwin and MBart.

    Raises:
        AuditError: Another network.
    """
    try:
        inner = network.decoder.model.decoder
        words, places = inner.embed_tokens, inner.embed_positions
        first = inner.layers[0].self_attn_layer_norm
        return Decoder(
            embedding=_plain(words.weight),
            positions=_plain(places.weight),
            behind=_norm(inner.layernorm_embedding),
            before=_norm(first),
            scale=float(words.embed_scale),
            offset=int(places.offset),
            pad=int(words.padding_idx),
            tied=network.decoder.lm_head.weight is words.weight,
        )
    except (AttributeError, IndexError, TypeError) as error:
        raise AuditError(
            "reading text out of a gradient needs a Donut: DonutSwin and MBart in transformers' classes",
            "Give the network that the gradient is of",
        ) from error


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu()


def _norm(module: torch.nn.LayerNorm) -> Norm:
    return _plain(module.weight).double(), _plain(module.bias).double(), float(module.eps)

"""The training loss of a VT5 on packed tokens: no padding is computed, and every attention stays in the cache.

The network, its weights and its adapters are those of ``modeling.Vt5``; padded batches give the same losses
(``TrainableVt5.padded_loss``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.models.vt5.packed_functions import Attention, RootMeanSquareNorm
from pfl_audit.models.vt5.tokenizer import PAD


def can_pack(network: Vt5) -> bool:
    """Whether ``token_losses`` covers a network: its T5 has no dropout of its own and is on the CPU."""
    config = network.language_backbone.config
    return not config.dropout_rate and not config.is_gated_act and network.language_backbone.device.type == "cpu"


def token_losses(
    network: Vt5, ids: Sequence[Tensor], boxes: Sequence[Tensor], pages: Tensor, labels: Sequence[Tensor]
) -> Tensor:
    """Cross-entropy of every answer token.

    Args:
        ids: Of prompts and words of each example, int64 (tokens,).
        boxes: int64 (tokens, 4) each.
        pages: DiT features, float (examples, patches + 1, DiT width).
        labels: Answers, int64 (tokens,) each.

    Returns:
        float (answer tokens of all examples,).
    """
    backbone = network.language_backbone
    texts = [len(one) for one in ids]
    words = backbone.shared(torch.cat(list(ids))) + network.spatial_embedding(torch.cat(list(boxes)))
    parts = zip(words.split(texts), network.visual_embedding(pages), strict=True)
    tokens = torch.cat([part for pair in parts for part in pair])
    lengths = [count + pages.shape[1] for count in texts]
    answers = [len(one) for one in labels]
    encoded = _stack(backbone.encoder, tokens, lengths)
    start = labels[0].new_full((1,), PAD)
    before = torch.cat([part for one in labels for part in (start, one[:-1])])
    decoded = _stack(backbone.decoder, backbone.decoder.embed_tokens(before), answers, encoded, lengths)
    if backbone.config.scale_decoder_outputs:
        decoded = decoded * backbone.model_dim**-0.5
    return functional.cross_entropy(backbone.lm_head(decoded), torch.cat(list(labels)), reduction="none")


def _stack(
    stack: Any, rows: Tensor, counts: Sequence[int], encoded: Tensor | None = None, asked: Sequence[int] = ()
) -> Tensor:
    """All blocks of an encoder, or with ``encoded`` of a decoder."""
    first = stack.block[0].layer[0].SelfAttention
    bias = _position_bias(first, max(counts))
    for block in stack.block:
        own = block.layer[0]
        normed = _norm(own.layer_norm, rows)
        rows = _attend(own.SelfAttention, rows, normed, normed, bias, counts, counts)
        if encoded is not None:
            cross = block.layer[1]
            rows = _attend(cross.EncDecAttention, rows, _norm(cross.layer_norm, rows), encoded, None, counts, asked)
        last = block.layer[-1]
        dense = last.DenseReluDense
        hidden = dense.act(functional.linear(_norm(last.layer_norm, rows), dense.wi.weight))
        rows = torch.addmm(rows, hidden, dense.wo.weight.t())
    return _norm(stack.final_layer_norm, rows)


def _norm(norm: Any, rows: Tensor) -> Tensor:
    out: Tensor = RootMeanSquareNorm.apply(rows, norm.weight, norm.variance_epsilon)
    return out


def _attend(
    layer: Any, rows: Tensor, asking: Tensor, asked: Tensor, bias: Tensor | None, *counts: Sequence[int]
) -> Tensor:
    """An attention layer with its residual connection."""
    found = Attention.apply(layer.q(asking), layer.k(asked), layer.v(asked), bias, layer.n_heads, *counts)
    return torch.addmm(rows, found, layer.o.weight.t())


def _position_bias(layer: Any, longest: int) -> Tensor:
    """Relative position bias, float (heads, longest, longest), with the causal mask of a decoder.

    It depends on the distance of two tokens alone, so that one row of 2 longest - 1 numbers holds all of it.
    """
    distances = torch.arange(1 - longest, longest)
    buckets = layer._relative_position_bucket(
        distances, not layer.is_decoder, layer.relative_attention_num_buckets, layer.relative_attention_max_distance
    )
    row = layer.relative_attention_bias(buckets).t()
    if layer.is_decoder:
        row = row.masked_fill(distances > 0, -torch.inf)
    return row.unfold(1, longest, 1).flip(1).contiguous()

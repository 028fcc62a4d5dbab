"""A VT5 on packed tokens: no padding is computed, and every sequence attends to itself alone.

The network, its weights and its adapters are those of ``modeling.Vt5``; padded batches give the same states and losses
(``TrainableVt5.padded_loss``). Several owners, such as providers, may share a pass: each has adapters and dropout of
its own, and the frozen weights multiply the rows of all of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.models.vt5.tokenizer import PAD


def can_encode(network: Vt5) -> bool:
    """True where ``encode`` covers a network that is not trained: on the CPU."""
    return network.language_backbone.device.type == "cpu"


def can_pack(network: Vt5) -> bool:
    """Whether ``token_losses`` covers a network as well: its T5 has no dropout of its own."""
    return can_encode(network) and not network.language_backbone.config.dropout_rate


@dataclass(frozen=True)
class Owners:
    """Whose examples share a pass, one owner after the other.

    Attributes:
        examples: Numbers of examples of the owners.
        tensors: Trained tensor of the network, by ``id``, to that of every owner; others are the network's.
        generators: Random generator of dropout of every owner; none for torch's own.
    """

    examples: Sequence[int]
    tensors: Mapping[int, Sequence[Tensor]] = field(default_factory=dict)
    generators: Sequence[torch.Generator] = ()

    def rows(self, counts: Sequence[int]) -> list[int]:
        """Numbers of rows of the owners, from those of the examples."""
        rest = iter(counts)
        return [sum(islice(rest, many)) for many in self.examples]

    def of(self, tensor: Tensor) -> Sequence[Tensor]:
        """A tensor of every owner."""
        return self.tensors.get(id(tensor)) or [tensor] * len(self.examples)

    def drop(self, dropout: Any, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """A dropout layer; each owner draws what it would draw alone."""
        if not self.generators or not isinstance(dropout, nn.Dropout) or not dropout.training or not dropout.p:
            return dropout(rows)
        kept = torch.empty_like(rows)
        for part, generator in zip(torch.split(kept, self.rows(counts)), self.generators, strict=True):
            part.bernoulli_(1 - dropout.p, generator=generator)
        return rows * kept.div_(1 - dropout.p)


def encode(network: Vt5, ids: Sequence[Tensor], boxes: Sequence[Tensor], pages: Tensor) -> list[Tensor]:
    """Output of the encoder for each example, as of ``token_losses``: float (tokens and patches + 1, width)."""
    rows, lengths = _encode(network, Owners([len(ids)]), ids, boxes, pages)
    return list(torch.split(rows, lengths))


def token_losses(
    network: Vt5,
    ids: Sequence[Tensor],
    boxes: Sequence[Tensor],
    pages: Tensor,
    labels: Sequence[Tensor],
    owners: Owners | None = None,
) -> Tensor:
    """Cross-entropy of every answer token.

    Args:
        network: Network that ``can_pack``.
        ids: Of prompts and words of each example, int64 (tokens,).
        boxes: int64 (tokens, 4) each.
        pages: DiT features, float (examples, patches + 1, DiT width).
        labels: Answers, int64 (tokens,) each.
        owners: Whose the examples are; None for one.

    Returns:
        float (answer tokens of all examples,).
    """
    owners = owners or Owners([len(ids)])
    backbone = network.language_backbone
    encoded, lengths = _encode(network, owners, ids, boxes, pages)
    answers = [len(one) for one in labels]
    start = labels[0].new_full((1,), PAD)
    before = torch.cat([part for one in labels for part in (start, one[:-1])])
    decoded = _stack(backbone.decoder, owners, backbone.decoder.embed_tokens(before), answers, encoded, lengths)
    if backbone.config.scale_decoder_outputs:
        decoded = decoded * backbone.model_dim**-0.5
    return functional.cross_entropy(backbone.lm_head(decoded), torch.cat(list(labels)), reduction="none")


def _encode(
    network: Vt5, owners: Owners, ids: Sequence[Tensor], boxes: Sequence[Tensor], pages: Tensor
) -> tuple[Tensor, list[int]]:
    """Output of the encoder, float (rows of all examples, width), and the number of rows of each."""
    backbone, spatial = network.language_backbone, network.spatial_embedding
    texts = [len(one) for one in ids]
    positions = owners.drop(spatial.dropout, spatial.positions(torch.cat(list(boxes))), texts)
    words = backbone.shared(torch.cat(list(ids))) + spatial.spatial_emb_matcher(positions)
    parts = zip(torch.split(words, texts), network.visual_embedding(pages), strict=True)
    tokens = torch.cat([part for pair in parts for part in pair])
    lengths = [count + pages.shape[1] for count in texts]
    return _stack(backbone.encoder, owners, tokens, lengths), lengths


def _stack(
    stack: Any,
    owners: Owners,
    rows: Tensor,
    counts: Sequence[int],
    encoded: Tensor | None = None,
    asked: Sequence[int] = (),
) -> Tensor:
    """All blocks of an encoder, or with ``encoded`` of a decoder."""
    first = stack.block[0].layer[0].SelfAttention
    bias = _bias(first, max(counts))
    for block in stack.block:
        own = block.layer[0]
        normed = own.layer_norm(rows)
        rows = _attend(own.SelfAttention, owners, rows, (normed, counts), (normed, counts), bias)
        if encoded is not None:
            cross = block.layer[1]
            asking = cross.layer_norm(rows)
            rows = _attend(cross.EncDecAttention, owners, rows, (asking, counts), (encoded, asked), None)
        rows = block.layer[-1](rows)
    return stack.final_layer_norm(rows)


Rows = tuple[Tensor, Sequence[int]]
"""Rows of all sequences, float (rows, width), and the number of each."""


def _attend(layer: Any, owners: Owners, rows: Tensor, asking: Rows, asked: Rows, bias: Tensor | None) -> Tensor:
    """An attention layer of each sequence on its own, with its residual connection: T5 does not scale its scores."""
    projected = ((layer.q, asking), (layer.k, asked), (layer.v, asked))
    split = [_heads(_project(linear, owners, *some), some[1], layer.n_heads) for linear, some in projected]
    found = []
    for query, key, value in zip(*split, strict=True):
        scores = query @ key.mT
        if bias is not None:
            scores = scores + bias[:, : query.shape[1], : key.shape[1]]
        found.append((scores.softmax(dim=-1) @ value).transpose(0, 1).flatten(1))
    return rows + layer.o(torch.cat(found))


def _heads(rows: Tensor, counts: Sequence[int], heads: int) -> Sequence[Tensor]:
    """The rows of each sequence as float (heads, rows, width of a head)."""
    return torch.split(rows.view(len(rows), heads, -1).transpose(0, 1), list(counts), dim=1)


def _project(linear: Any, owners: Owners, rows: Tensor, counts: Sequence[int]) -> Tensor:
    """A linear layer, with the adapter of each owner that peft placed in it, if any."""
    if isinstance(linear, nn.Linear):
        return linear(rows)
    out: Tensor = linear.base_layer(rows)
    for name in linear.active_adapters:
        dropped = torch.split(owners.drop(linear.lora_dropout[name], rows, counts), owners.rows(counts))
        halves = owners.of(linear.lora_A[name].weight), owners.of(linear.lora_B[name].weight)
        added = [some @ down.t() @ up.t() for some, down, up in zip(dropped, *halves, strict=True)]
        out = out + linear.scaling[name] * torch.cat(added)
    return out


def _bias(layer: Any, longest: int) -> Tensor:
    """Relative position bias, float (heads, longest, longest), with the causal mask of a decoder."""
    found: Tensor = layer.compute_bias(longest, longest)[0]
    return found + torch.full((longest, longest), -torch.inf).triu(1) if layer.is_decoder else found

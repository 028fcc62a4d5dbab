"""Greedy answers of a VT5: rows of finished answers leave the batch, and keys of a page are computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.models.vt5.packed import attention_bias, feed_forward, norm
from pfl_audit.models.vt5.tokenizer import EOS, PAD

_LEAVE = 0.7
"""Share of rows that are still answering, below which the others leave: moving keys and values takes time as well."""

KeysValues = tuple[Tensor, Tensor]
"""Float (rows, heads, tokens, width of a head) each."""


@dataclass
class Answered:
    """An answer.

    Attributes:
        tokens: Without start and end.
        log: Log-likelihood of its tokens, padding and end left out; natural logarithm.
    """

    tokens: list[int] = field(default_factory=list)
    log: float = 0.0

    @property
    def confidence(self) -> float:
        """Product of the probabilities of its tokens."""
        return exp(self.log)


def greedy_answers(network: Vt5, pages: Tensor, mask: Tensor, longest: int) -> tuple[list[Answered], list[KeysValues]]:
    """The answers of the likeliest tokens, as of ``generate``.

    Args:
        network: Network that ``can_encode``.
        pages: Output of the encoder, float (questions, tokens, width).
        mask: int64 (questions, tokens); 0 is padding.
        longest: Tokens of the longest answer, with its start.

    Returns:
        An answer for each question, and keys and values of all pages in the cross-attention of each layer.
    """
    decoder = network.language_backbone.decoder
    across = [_of_pages(block.layer[1].EncDecAttention, pages) for block in decoder.block]
    state = _State(across, [None] * len(across), pages.new_zeros(mask.shape).masked_fill(mask == 0, -torch.inf))
    bias = attention_bias(decoder.block[0].layer[0].SelfAttention, longest)
    answers = [Answered() for _ in range(len(pages))]
    answering = list(range(len(pages)))
    last = torch.full((len(pages),), PAD)
    for step in range(longest - 1):
        rows = _step(network, last, state, bias[:, step : step + 1, : step + 1])
        logs, tokens = network.language_backbone.lm_head(rows).float().log_softmax(dim=-1).max(dim=-1)
        for at, (row, log, token) in enumerate(zip(answering, logs.tolist(), tokens.tolist(), strict=True)):
            if row >= 0 and token != EOS:
                answers[row].tokens.append(token)
                answers[row].log += log if token != PAD else 0.0
            elif row >= 0:
                answering[at] = -1
        kept = [at for at, row in enumerate(answering) if row >= 0]
        if not kept:
            break
        if len(kept) <= _LEAVE * len(answering):
            answering = [answering[at] for at in kept]
            tokens = tokens[kept]
            state.select(kept)
        last = tokens
    return answers, across


@dataclass
class _State:
    """What is kept between steps.

    Attributes:
        across: Keys and values of the pages, by layer.
        before: Those of the answers so far; None before the first step.
        padding: Added to the scores of a page, float (rows, tokens of pages).
    """

    across: list[KeysValues]
    before: list[KeysValues | None]
    padding: Tensor

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows."""
        at = torch.tensor(rows)
        self.padding = self.padding[at]
        self.across = [(keys[at], values[at]) for keys, values in self.across]
        self.before = [None if pair is None else (pair[0][at], pair[1][at]) for pair in self.before]


def _step(network: Vt5, tokens: Tensor, state: _State, bias: Tensor) -> Tensor:
    """States of the next tokens, float (rows, width)."""
    backbone = network.language_backbone
    rows: Tensor = backbone.decoder.embed_tokens(tokens)
    padding = state.padding[:, None, None]
    for layer, block in enumerate(backbone.decoder.block):
        own = block.layer[0].SelfAttention
        normed = norm(block.layer[0].layer_norm, rows)
        query, key, value = (_heads(linear(normed)[:, None], own.n_heads) for linear in (own.q, own.k, own.v))
        if (before := state.before[layer]) is not None:
            key, value = torch.cat([before[0], key], dim=2), torch.cat([before[1], value], dim=2)
        state.before[layer] = key, value
        rows = rows + own.o(_attended(query, key, value, bias))
        cross = block.layer[1].EncDecAttention
        asking = _heads(cross.q(norm(block.layer[1].layer_norm, rows))[:, None], cross.n_heads)
        rows = rows + cross.o(_attended(asking, *state.across[layer], padding))
        rows = feed_forward(block.layer[2], rows)
    rows = norm(backbone.decoder.final_layer_norm, rows)
    return rows * backbone.model_dim**-0.5 if backbone.config.scale_decoder_outputs else rows


def _of_pages(layer: Any, pages: Tensor) -> KeysValues:
    """Keys and values of pages, laid out as the products of a step read them."""
    keys, values = _heads(layer.k(pages), layer.n_heads), _heads(layer.v(pages), layer.n_heads)
    return keys.mT.contiguous().mT, values.contiguous()


def _heads(rows: Tensor, heads: int) -> Tensor:
    """Float (rows, tokens, width) as (rows, heads, tokens, width of a head)."""
    return rows.view(*rows.shape[:2], heads, -1).transpose(1, 2)


def _attended(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """Attention of one token a row, without scaling: float (rows, width)."""
    return (functional.softmax(query @ key.mT + bias, dim=-1) @ value).flatten(1)

"""The encoder's attention and patch embedding, computed with less.

Matching gradients differentiates a gradient. Left to itself, torch then takes some fifty steps over every table of
attention weights, which is where the time of an iteration goes. Here the same derivatives are written out: a dozen
steps, most of them matrix products. Values agree with transformers' own but for rounding.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional
from transformers.models.donut.modeling_donut_swin import DonutSwinPatchEmbeddings, DonutSwinSelfAttention


def quicken(network: Any) -> None:
    """Let a network without dropout compute its encoder this way, in place; names and parameters stay."""
    for module in network.modules():
        if isinstance(module, DonutSwinSelfAttention):
            module.forward = MethodType(_attend, module)
        elif isinstance(module, DonutSwinPatchEmbeddings):
            module.forward = MethodType(_embed, module)


def _embed(module: Any, pixel_values: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """The convolution as one product with the patches: float (pages, patches, width), and rows and columns."""
    pixels = module.maybe_pad(pixel_values, *pixel_values.shape[2:])
    high, wide = module.patch_size
    pages, channels, height, width = pixels.shape
    rows, columns = height // high, width // wide
    cut = pixels.view(pages, channels, rows, high, columns, wide).permute(0, 2, 4, 1, 3, 5)
    patches = cut.reshape(pages, rows * columns, channels * high * wide)
    weight = module.projection.weight
    return functional.linear(patches, weight.view(len(weight), -1), module.projection.bias), (rows, columns)


def _attend(
    module: Any, hidden_states: Tensor, attention_mask: Tensor | None = None, output_attentions: bool | None = False
) -> tuple[Tensor, ...]:
    """Attention within windows: float (windows, places, width), and with ``output_attentions`` its weights."""
    windows, places, width = hidden_states.shape
    heads, size = module.num_attention_heads, module.attention_head_size
    query, key, value = (
        layer(hidden_states).view(windows, places, heads, size).transpose(1, 2).reshape(-1, places, size)
        for layer in (module.query, module.key, module.value)
    )
    bias = _Spread.apply(module.relative_position_bias_table, module.relative_position_index)[None]
    if attention_mask is not None:
        bias = bias + attention_mask[:, None]
    seen, weights = _Attention.apply(query * size**-0.5, key, value, bias)
    context = seen.view(windows, heads, places, size).transpose(1, 2).reshape(windows, places, width)
    return (context, weights.view(windows, heads, places, places)) if output_attentions else (context,)


class _Spread(Function):
    """A table of biases (offsets, heads) laid out over pairs of places (heads, places, places)."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.rows = len(table)
        ctx.save_for_backward(index)
        return _spread(table, index)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return _Collect.apply(slope, index, ctx.rows), None


class _Collect(Function):
    """The reverse: what falls to one offset is added up."""

    @staticmethod
    def forward(ctx: Any, slope: Tensor, index: Tensor, rows: int) -> Tensor:
        ctx.save_for_backward(index)
        found = slope.new_zeros(len(slope), rows)
        return found.index_add_(1, index.flatten(), slope.flatten(1)).t()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        return _spread(slope, index), None, None


def _spread(table: Tensor, index: Tensor) -> Tensor:
    return table.t().contiguous().index_select(1, index.flatten()).view(-1, *index.shape)


class _Attention(Function):
    """softmax(Q K^T + B) V, and the weights, which the second derivative goes through.

    Q, K, V are (windows * heads, places, size), B (masks, heads, places, places), windows a multiple of masks.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        scores = query @ key.mT
        scores.view(-1, *bias.shape).add_(bias)
        weights = scores.softmax(dim=-1)
        seen = weights @ value
        ctx.masks, ctx.heads = bias.shape[:2]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(query, key, value, weights, seen)
        return seen, weights

    @staticmethod
    def backward(ctx: Any, seen: Tensor | None, weighed: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        query, key, value, weights, out = ctx.saved_tensors
        seen = torch.zeros_like(out) if seen is None else seen
        *slopes, scores = _Slopes.apply(query, key, value, weights, out, seen, weighed)
        own = scores.view(-1, ctx.masks, ctx.heads, *scores.shape[1:])
        return *slopes, own[0] if len(own) == 1 else own.sum(dim=0)


class _Slopes(Function):
    """The derivative of attention, and its derivative.

    With P the weights, G the slope of what was seen, D = G V^T less its mean by row under P: the slope of the scores
    is S = P * D, and slopes of Q, K, V are S K, S^T Q, P^T G. Given slopes a, b, c, e of these four, that of S is
    a K^T + Q b^T + e; less its mean by row under P it is T, and P * T is the slope of G V^T, D * T that of P (up to
    what is the same in all of a row, which a softmax does not feel).
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        weights: Tensor,
        out: Tensor,
        seen: Tensor,
        weighed: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if weighed is None:
            apart = (seen @ value.mT).sub_((seen * out).sum(dim=-1, keepdim=True))
            scores = weights * apart
            ctx.save_for_backward(query, key, value, weights, seen, apart, scores)
        else:
            apart = torch.baddbmm(weighed, seen, value.mT)
            scores = torch._softmax_backward_data(apart, weights, -1, weights.dtype)
        return scores @ key, scores.mT @ query, weights.mT @ seen, scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, a: Tensor, b: Tensor, c: Tensor, e: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, seen, apart, scores = ctx.saved_tensors
        slope = torch.baddbmm(e, torch.cat([a, query], -1), torch.cat([key, b], -1).mT)
        slope -= (weights * slope).sum(dim=-1, keepdim=True)
        passed = weights * slope
        weighed = slope.mul_(apart).baddbmm_(seen, c.mT)
        return (
            scores @ b,
            scores.mT @ a,
            passed.mT @ seen,
            weighed,
            None,
            passed @ value + weights @ c,
            None,
        )

"""Attention, layer normalisation and the patch embedding of Donut, with fused second derivatives.

Gradient matching differentiates a gradient. Plain autograd then takes about fifty elementwise operations over every
table of attention weights, which dominate the time of an iteration. Here the same derivatives are a dozen operations,
most of them matrix products. Values agree with those of transformers up to rounding; ``tests.bench.fused_attention``
measures what is saved.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from types import MethodType
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

TESTED: Final = ((5, 0), (5, 23))
"""First and last minor version of transformers whose classes are replaced; pyproject.toml has the same range."""


def fuse(network: Any) -> str | None:
    """Replace the forward passes of a Donut without dropout, in place; parameters and their names stay.

    Args:
        network: VisionEncoderDecoderModel of DonutSwin and MBart with eager attention, or a part of one.

    Returns:
        None; or, with a version of transformers outside TESTED, why nothing was replaced, as a note for the report.
    """
    installed = version("transformers")
    numbers = installed.split(".")[:2]
    if not (all(map(str.isdecimal, numbers)) and TESTED[0] <= tuple(map(int, numbers)) <= TESTED[1]):
        first, last = (".".join(map(str, numbers)) for numbers in TESTED)
        return f"second derivatives by plain autograd: fused are for transformers {first} to {last}, not {installed}"
    replacements = _replacements()
    for module in network.modules():
        if replacement := replacements.get(type(module)):
            module.forward = MethodType(replacement, module)
    return None


def _replacements() -> dict[type, Callable[..., Any]]:
    """Class to forward pass; imported late, since other versions of transformers may not have these classes."""
    from transformers.models.donut.modeling_donut_swin import DonutSwinPatchEmbeddings, DonutSwinSelfAttention
    from transformers.models.mbart.modeling_mbart import MBartAttention

    return {
        DonutSwinSelfAttention: _window_attention,
        DonutSwinPatchEmbeddings: _patch_embedding,
        MBartAttention: _decoder_attention,
        torch.nn.LayerNorm: _layer_norm,
    }


def _apply(function: type[Function], *values: Any) -> Any:
    apply: Any = function.apply
    return apply(*values)


def _patch_embedding(module: Any, pixel_values: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """The convolution as one product with the patches: float (pages, patches, width), and rows and columns."""
    pixels = module.maybe_pad(pixel_values, *pixel_values.shape[2:])
    high, wide = module.patch_size
    pages, channels, height, width = pixels.shape
    rows, columns = height // high, width // wide
    cut = pixels.view(pages, channels, rows, high, columns, wide).permute(0, 2, 4, 1, 3, 5)
    patches = cut.reshape(pages, rows * columns, channels * high * wide)
    weight = module.projection.weight
    return functional.linear(patches, weight.view(len(weight), -1), module.projection.bias), (rows, columns)


def _window_attention(
    module: Any, hidden_states: Tensor, attention_mask: Tensor | None = None, output_attentions: bool | None = False
) -> tuple[Tensor, ...]:
    """Attention within windows: float (windows, places, width), and with ``output_attentions`` its weights."""
    windows, places, _ = hidden_states.shape
    heads, size = module.num_attention_heads, module.attention_head_size
    query, key, value = (_heads(layer(hidden_states), size) for layer in (module.query, module.key, module.value))
    table, index = module.relative_position_bias_table, module.relative_position_index
    seen, weights = _apply(_Attention, query * size**-0.5, key, value, heads, attention_mask, table, index)
    context = _joined(seen, heads)
    return (context, weights.view(windows, heads, places, places)) if output_attentions else (context,)


def _decoder_attention(
    module: Any,
    hidden_states: Tensor,
    key_value_states: Tensor | None = None,
    past_key_values: Any = None,
    attention_mask: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor]:
    """Attention of the decoder; with a cache, as in generation, that of transformers."""
    if past_key_values is not None:
        return type(module).forward(module, hidden_states, key_value_states, past_key_values, attention_mask, **others)
    heads, size = module.num_heads, module.head_dim
    other = hidden_states if key_value_states is None else key_value_states
    query = _heads(module.q_proj(hidden_states) * module.scaling, size)
    key, value = _heads(module.k_proj(other), size), _heads(module.v_proj(other), size)
    mask = None if attention_mask is None else attention_mask[:, 0]
    seen, weights = _apply(_Attention, query, key, value, heads, mask, None, None)
    return module.out_proj(_joined(seen, heads)), weights.view(-1, heads, *weights.shape[1:])


def _heads(values: Tensor, size: int) -> Tensor:
    """(samples, places, heads * size) to (samples * heads, places, size)."""
    samples, places, width = values.shape
    return values.view(samples, places, width // size, size).transpose(1, 2).reshape(-1, places, size)


def _joined(values: Tensor, heads: int) -> Tensor:
    """The inverse of _heads."""
    _, places, size = values.shape
    return values.view(-1, heads, places, size).transpose(1, 2).reshape(-1, places, heads * size)


def _layer_norm(module: Any, values: Tensor) -> Tensor:
    return _apply(_Norm, values, module.weight, module.bias, module.eps)


class _Attention(Function):
    """softmax(Q K^T + B) V, and the weights, which the second derivative goes through.

    Q, K, V are (samples * heads, places, size). B is a mask (masks, places, places), with samples a multiple of masks,
    and a table (offsets, heads) that an index (places, places) lays out over pairs of places; or either, or nothing.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        heads: int,
        mask: Tensor | None,
        table: Tensor | None,
        index: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        scores = query @ key.mT
        if table is not None and index is not None:
            scores.view(-1, heads, *index.shape).add_(_spread(table, index))
        if mask is not None:
            scores.view(-1, len(mask), heads, *mask.shape[1:]).add_(mask[:, None])
        weights = scores.softmax(dim=-1)
        seen = weights @ value
        ctx.shape = None if table is None else table.shape
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(query, key, value, index, weights, seen)
        return seen, weights

    @staticmethod
    def backward(ctx: Any, slope: Tensor | None, weighed: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, index, weights, seen = ctx.saved_tensors
        slope = torch.zeros_like(seen) if slope is None else slope
        *slopes, table = _apply(_Slopes, query, key, value, index, weights, seen, slope, weighed, ctx.shape)
        return *slopes, None, None, table, None


class _Slopes(Function):
    """The derivative of attention, and its derivative.

    With P the weights, G the slope of what was seen, D = G V^T less its mean by row under P: the slope of the scores
    is S = P * D, and slopes of Q, K, V are S K, S^T Q, P^T G. Given slopes a, b, c of these three and e of the table,
    that of S is a K^T + Q b^T + e; less its mean by row under P it is T, and P * T is the slope of G V^T, D * T that of
    P (up to what is the same in all of a row, which a softmax does not feel).
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        index: Tensor | None,
        weights: Tensor,
        seen: Tensor,
        slope: Tensor,
        weighed: Tensor | None,
        shape: tuple[int, int] | None,
    ) -> tuple[Tensor | None, ...]:
        if weighed is None:
            apart = (slope @ value.mT).sub_((slope * seen).sum(dim=-1, keepdim=True))
            scores = weights * apart
            ctx.save_for_backward(query, key, value, index, weights, slope, apart, scores)
        else:
            apart = torch.baddbmm(weighed, slope, value.mT)
            scores = torch._softmax_backward_data(apart, weights, -1, weights.dtype)
        table = None if index is None or shape is None else _collect(scores, index, shape)
        return scores @ key, scores.mT @ query, weights.mT @ slope, table

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, a: Tensor, b: Tensor, c: Tensor, e: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, index, weights, slope, apart, scores = ctx.saved_tensors
        turned = torch.cat([a, query], -1) @ torch.cat([key, b], -1).mT
        if e is not None:
            turned.view(-1, e.shape[1], *index.shape).add_(_spread(e, index))
        turned -= (weights * turned).sum(dim=-1, keepdim=True)
        passed = weights * turned
        weighed = turned.mul_(apart).baddbmm_(slope, c.mT)
        seen = passed @ value + weights @ c
        return scores @ b, scores.mT @ a, passed.mT @ slope, None, weighed, None, seen, None, None


def _spread(table: Tensor, index: Tensor) -> Tensor:
    """Relative position biases (offsets, heads) laid out over pairs of places, (heads, places, places)."""
    return table.t().contiguous().index_select(1, index.flatten()).view(-1, *index.shape)


def _collect(scores: Tensor, index: Tensor, shape: tuple[int, int]) -> Tensor:
    """The transpose of _spread: sums over all pairs of one offset and over samples, (offsets, heads)."""
    found = scores.new_zeros(shape[::-1])
    for one in scores.view(-1, shape[1], index.numel()):
        found.index_add_(1, index.flatten(), one)
    return found.t()


class _Norm(Function):
    """Layer normalisation over the last dimension."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        found, mean, scale = torch.native_layer_norm(values, weight.shape, weight, bias, eps)
        ctx.save_for_backward(values, weight, bias, mean, scale)
        return found

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        return *_apply(_NormSlopes, slope, *ctx.saved_tensors), None


class _NormSlopes(Function):
    """The derivative of normalisation, and its derivative.

    With z = (x - mean) r and g the slope times the weights, that of x is r P(g), where P takes the mean and the part
    along z away. P is the same turned round, so that it serves for the second derivative too.
    """

    @staticmethod
    def forward(
        ctx: Any, slope: Tensor, values: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, scale: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_layer_norm_backward(
            slope, values, weight.shape, mean, scale, weight, bias, (True, True, True)
        )
        ctx.save_for_backward(slope, values, weight, mean, scale, found[0])
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor | None, ...]:
        slope, values, weight, mean, scale, found = ctx.saved_tensors

        def projected(some: Tensor) -> Tensor:
            found: Tensor = torch.ops.aten.native_layer_norm_backward(
                some, values, weight.shape, mean, scale, None, None, (True, False, False)
            )[0]
            return found  # fmt: skip

        normal, inner, along = (values - mean) * scale, slope * weight, projected(a)
        one, other, third = ((first * second).mean(dim=-1, keepdim=True)
                             for first, second in ((a, normal), (inner, normal), (a, found)))  # fmt: skip
        inside = torch.addcmul(b * slope, inner * one + a * other, scale, value=-1)
        return (
            torch.addcmul(along * weight + c, b, normal),
            torch.addcmul(projected(inside), normal, scale * third, value=-1),
            (slope * along).flatten(0, -2).sum(dim=0),
            None,
            None,
            None,
        )

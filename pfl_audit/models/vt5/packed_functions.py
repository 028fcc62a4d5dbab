"""Operations on packed tokens with gradients of their own: the rows of all sequences follow one another, unpadded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class RootMeanSquareNorm(torch.autograd.Function):
    """T5's layer norm in fewer passes over memory: x / root mean square of x, times a weight.

    Arguments of ``apply``: rows, float (rows, width); weight, float (width,); epsilon.
    """

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Return float (rows, width)."""
        scale = torch.linalg.vecdot(x, x).div_(x.shape[1]).add_(epsilon).rsqrt_()[:, None]
        context.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Return the gradients of rows and weight."""
        x, weight, scale = context.saved_tensors
        of_rows = of_weight = None
        if context.needs_input_grad[1]:
            of_weight = (gradients[0] * x).mul_(scale).sum(0)
        if context.needs_input_grad[0]:
            weighted = gradients[0] * weight
            inner = torch.linalg.vecdot(weighted, x)[:, None] * scale**3 / -x.shape[1]
            of_rows = weighted.mul_(scale).addcmul_(x, inner)
        return of_rows, of_weight, None


class Attention(torch.autograd.Function):
    """Softmax attention of each sequence on its own, without scaling, so that scores stay in the processor's cache.

    Arguments of ``apply``: queries, float (rows, width); keys and values, float (other rows, width); bias of the
    scores, float (heads, longest, longest) whose upper left part every sequence uses, or None; heads; numbers of rows
    of the sequences in the queries, and in the keys.
    """

    @staticmethod
    def forward(
        context: Any,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        bias: Tensor | None,
        heads: int,
        asking: Sequence[int],
        asked: Sequence[int],
    ) -> Tensor:
        """Return float (rows, width)."""
        context.counts = heads, asking, asked
        context.biased = None if bias is None else bias.shape
        out, kept = torch.empty_like(queries), []
        trained = any(context.needs_input_grad)
        parts = _parts(heads, (queries, asking), (keys, asked), (values, asked), (out, asking))
        for query, key, value, place in parts:
            if bias is None:
                scores = torch.bmm(query, key.mT)
            else:
                scores = torch.baddbmm(bias[:, : query.shape[1], : key.shape[1]], query, key.mT)
            shares = torch.softmax(scores, dim=-1)
            if trained:
                kept.append(shares)
            place.copy_(torch.bmm(shares, value))
        context.save_for_backward(queries, keys, values, *kept)
        return out

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of queries, keys, values and bias."""
        queries, keys, values, *kept = context.saved_tensors
        heads, asking, asked = context.counts
        wanted = context.needs_input_grad
        of = [torch.empty_like(rows) for rows in (queries, keys, values)]
        of_bias = queries.new_zeros(context.biased) if wanted[3] else None
        inputs = (queries, asking), (keys, asked), (values, asked), (gradients[0].contiguous(), asking)
        outputs = zip(of, (asking, asked, asked), strict=True)
        for shares, parts in zip(kept, _parts(heads, *inputs, *outputs), strict=True):
            query, key, value, gradient, of_query, of_key, of_value = parts
            if wanted[2]:
                of_value.copy_(torch.bmm(shares.mT, gradient))
            if not (wanted[0] or wanted[1] or wanted[3]):
                continue
            of_shares = torch.bmm(gradient, value.mT)
            of_scores = torch._softmax_backward_data(of_shares, shares, -1, shares.dtype)
            if wanted[0]:
                of_query.copy_(torch.bmm(of_scores, key))
            if wanted[1]:
                of_key.copy_(torch.bmm(of_scores.mT, query))
            if of_bias is not None:
                of_bias[:, : query.shape[1], : key.shape[1]] += of_scores
        found = (gradient if needed else None for gradient, needed in zip((*of, of_bias), wanted, strict=False))
        return *found, None, None, None


class LowRankUpdate(torch.autograd.Function):
    """Add to the rows of each owner what its adapter gives: out += scale (x A^T) B^T, in place.

    Arguments of ``apply``: out, float (rows, outputs); x, float (rows, inputs); scale; numbers of rows of the owners;
    then A, float (rank, inputs), of every owner; then B, float (outputs, rank), of every owner.
    """

    @staticmethod
    def forward(context: Any, out: Tensor, x: Tensor, scale: float, counts: Sequence[int], *halves: Tensor) -> Tensor:
        """Return ``out``."""
        downs, ups = halves[: len(counts)], halves[len(counts) :]
        inner = x.new_empty((len(x), len(downs[0])))
        split = (torch.split(rows, list(counts)) for rows in (out, x, inner))
        parts = zip(*split, downs, ups, strict=True)
        for place, rows, low, down, up in parts:
            torch.mm(rows, down.t(), out=low)
            place.addmm_(low, up.t(), alpha=scale)
        context.mark_dirty(out)
        context.save_for_backward(x, inner, *halves)
        context.scale, context.counts = scale, list(counts)
        return out

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of out, x, and both halves of every owner."""
        x, inner, *halves = context.saved_tensors
        counts, owners = context.counts, len(context.counts)
        of_x = torch.empty_like(x) if context.needs_input_grad[1] else None
        of_halves: list[Tensor | None] = [None] * len(halves)
        parts = zip(*(torch.split(rows, counts) for rows in (gradients[0], x, inner)), strict=True)
        start = 0
        for owner, (gradient, rows, low) in enumerate(parts):
            down, up = halves[owner], halves[owners + owner]
            scaled = up * context.scale
            of_low = gradient @ scaled
            if context.needs_input_grad[4 + owner]:
                of_halves[owner] = of_low.t() @ rows
            if context.needs_input_grad[4 + owners + owner]:
                of_halves[owners + owner] = (gradient.t() @ low).mul_(context.scale)
            if of_x is not None:
                torch.mm(of_low, down, out=of_x[start : start + len(rows)])
            start += len(rows)
        return gradients[0], of_x, None, None, *of_halves


def _parts(heads: int, *rows: tuple[Tensor, Sequence[int]]) -> Any:
    """Sequence after sequence, each tensor (rows, width) as (heads, rows of the sequence, width of a head)."""
    split = [
        torch.split(tensor.view(len(tensor), heads, -1).transpose(0, 1), list(counts), dim=1) for tensor, counts in rows
    ]
    return zip(*split, strict=True)

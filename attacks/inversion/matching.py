"""Distances between gradients, and the tensors that they compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import BackwardCFunction, FunctionCtx, once_differentiable

from pfl_audit.attacks.inversion.adapters.rows import adapted_layer
from pfl_audit.attacks.inversion.settings import Layers, Match
from pfl_audit.errors import NotAuditableError

Distance = Callable[[Sequence[Tensor]], Tensor]

SILENT = 1e-6
"""Of the largest norm: a tensor with less is zero but for rounding, such as attention key biases, which cancel in the
softmax. Its direction is noise."""
_APRIL = 1.0
_TINY = 1e-20


def speaking(
    gradient: Mapping[str, Tensor], layers: Layers = "all", fusion: tuple[str, ...] | None = None
) -> list[str]:
    """Names of the tensors that the distance compares.

    Args:
        gradient: The shared one; adapters in it are not compared, since the model has none.
        layers: ``pre-fusion`` are those of the parts that see the page or the words alone, ``post-fusion`` the others.
        fusion: Prefixes of the names of those parts, or None if the model has no such split.

    Raises:
        NotAuditableError: There is none, or the model has no such split.
    """
    if layers != "all" and fusion is None:
        raise NotAuditableError("this model names no layers before the fusion of page and text", "Use --layers all")
    before = fusion or ()
    whole = [name for name in gradient if adapted_layer(name) is None]
    chosen = [name for name in whole if layers == "all" or name.startswith(before) == (layers == "pre-fusion")]
    norms = {name: float(gradient[name].norm()) for name in chosen}
    largest = max(norms.values(), default=0.0)
    names = [name for name, norm in norms.items() if norm > SILENT * largest]
    if not names:
        raise NotAuditableError(f"the gradient has nothing in its {layers} layers but zeros", "Share these as well")
    return names


class _Function(Protocol):
    """``_Squares.apply`` with its types."""

    def __call__(self, target: Sequence[Tensor], both: bool, *parts: Tensor) -> tuple[Tensor, Tensor]: ...


def distance(match: Match, target: Sequence[Tensor], patches: int | None = None, *, scaled: bool = True) -> Distance:
    """Build the distance function to ``target``.

    Args:
        match: ``layered``: sum over the tensors of mean squared error and one minus cosine (GI-DQA, equation 5).
            ``relative``: mean over the tensors of the squared error over the tensor's own square; every layer counts
            the same, and near the solution it is a plain least-squares problem. For both, the gradient is brought to
            the size of the shared one first (ours): a clipped gradient and an update of SGD are one with a factor.
            ``euclidean``: squared error over all entries (DLG). ``cosine``: one minus the cosine of all entries as one
            vector (Inverting Gradients). ``april``: euclidean, and one minus the cosine of the patch embedding alone.
        target: The shared gradient's tensors.
        patches: Which of them is the patch embedding's.
        scaled: Whether ``layered`` brings the gradient to the size of the shared one; the paper does not.
    """
    squares = torch.stack([tensor.square().sum() for tensor in target])
    sizes = squares.new_tensor([tensor.numel() for tensor in target])

    both = match not in ("relative", "euclidean")
    squared: _Function = _Squares.apply

    weights = {"layered": 1 / sizes, "relative": 1 / squares}.get(match)

    def apart(parts: Sequence[Tensor]) -> Tensor:
        if weights is not None and (scaled or match != "layered"):
            factor = _factor([part.detach() for part in parts], target, weights)
            parts = [factor * part for part in parts]
        errors, own = squared(target, both, *parts)
        if match == "relative":
            return (errors / squares).mean()
        if match == "layered":
            return (errors / sizes).sum() + _turned(errors, own, squares).sum()
        if match == "cosine":
            return _turned(errors.sum(), own.sum(), squares.sum())
        found = errors.sum()
        if match == "april" and patches is not None:
            found = found + _APRIL * _turned(errors[patches], own[patches], squares[patches])
        return found

    return apart


def _factor(parts: Sequence[Tensor], target: Sequence[Tensor], weights: Tensor) -> Tensor:
    """The factor that brings a gradient nearest to the target by weighted least squares; 1 where they point apart.

    It needs no derivative of its own: it minimises the same error (envelope theorem).
    """
    along = torch.stack([torch.dot(part.flatten(), goal.flatten()) for part, goal in zip(parts, target, strict=True)])
    found = (weights * along).sum() / ((weights * _own_squares(parts)).sum() + _TINY)
    return torch.where(found > 0, found, torch.ones_like(found))


def _turned(errors: Tensor, own: Tensor, squares: Tensor) -> Tensor:
    """One minus cosine, from |a - b|^2, |a|^2 and |b|^2: exact where a and b are all but the same."""
    one, other = (own + _TINY).sqrt(), (squares + _TINY).sqrt()
    return (errors - (one - other).square()) / (2 * one * other)


class _Squares(Function):
    """Squared differences to a target, and own squares where they are asked for, both float (tensors,).

    All distances are made of these, so that their slopes are one product of the differences with a number each.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, target: Sequence[Tensor], both: bool, *parts: Tensor) -> tuple[Tensor, Tensor | None]:
        apart = torch._foreach_sub(parts, tuple(target))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*apart, *parts)
        return _own_squares(apart), _own_squares(parts) if both else None

    @staticmethod
    @once_differentiable
    def backward(ctx: BackwardCFunction, errors: Tensor | None, own: Tensor | None) -> tuple[Tensor | None, ...]:
        count = len(ctx.saved_tensors) // 2
        apart, parts = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        slopes = torch._foreach_mul(apart, [0.0] * count if errors is None else (2 * errors).tolist())
        if own is not None:
            for slope, part, weight in zip(slopes, parts, (2 * own).tolist(), strict=True):
                slope.add_(part, alpha=weight)
        return None, None, *slopes


def _own_squares(tensors: Sequence[Tensor]) -> Tensor:
    flat = [tensor.flatten() for tensor in tensors]
    return torch.stack([torch.dot(one, one) for one in flat])

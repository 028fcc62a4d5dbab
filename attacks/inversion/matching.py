"""How far a gradient is from the one that was shared, and which of its tensors can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from pfl_audit.attacks.inversion.kinds import Layers, Match
from torch import Tensor

from pfl_audit.errors import NotAuditableError

Distance = Callable[[Sequence[Tensor]], Tensor]

SILENT = 1e-6
"""Of the largest norm: a tensor with less is zero but for rounding, such as attention key biases, which cancel in the
softmax. Its direction is noise."""
_APRIL = 1.0
_TINY = 1e-20


def speaking(gradient: Mapping[str, Tensor], layers: Layers = "all", encoder: str = "encoder.") -> list[str]:
    """Names of the tensors that are matched.

    Args:
        gradient: The shared one.
        layers: ``pre-fusion`` are those of the part that sees the page alone, ``post-fusion`` the others.
        encoder: What the names of that part begin with.

    Raises:
        NotAuditableError: There is none.
    """
    chosen = [name for name in gradient if layers == "all" or name.startswith(encoder) == (layers == "pre-fusion")]
    norms = {name: float(gradient[name].norm()) for name in chosen}
    largest = max(norms.values(), default=0.0)
    names = [name for name, norm in norms.items() if norm > SILENT * largest]
    if not names:
        raise NotAuditableError(f"the gradient has nothing in its {layers} layers but zeros", "Share these as well")
    return names


def distance(match: Match, target: Sequence[Tensor], patches: int | None = None) -> Distance:
    """A function that tells how far tensors are from ``target``.

    Args:
        match: ``layered``: sum over the tensors of mean squared error and one minus cosine (GI-DQA, equation 5).
            ``relative``: mean over the tensors of the squared error over the tensor's own square; every layer counts
            the same, and near the solution it is a plain least-squares problem.
            ``euclidean``: squared error over all entries (DLG). ``cosine``: one minus the cosine of all entries as one
            vector (Inverting Gradients). ``april``: euclidean, and one minus the cosine of the patch embedding alone.
        target: The shared gradient's tensors.
        patches: Which of them is the patch embedding's.
    """
    squares = [tensor.square().sum() for tensor in target]
    if match == "relative":
        scales = [1 / (float(square) * len(target)) for square in squares]

        def relative(parts: Sequence[Tensor]) -> Tensor:
            return torch.stack(
                [scale * each for scale, each in zip(scales, _squares(parts, target), strict=True)]
            ).sum()

        return relative
    if match == "layered":
        sizes = [tensor.numel() for tensor in target]

        def layered(parts: Sequence[Tensor]) -> Tensor:
            means = [each / size for each, size in zip(_squares(parts, target), sizes, strict=True)]
            return torch.stack(means).sum() + (1 - _cosines(parts, target, squares)).sum()

        return layered
    if match == "cosine":

        def cosine(parts: Sequence[Tensor]) -> Tensor:
            dots = torch.stack([(one * other).sum() for one, other in zip(parts, target, strict=True)]).sum()
            norms = torch.stack([one.square().sum() for one in parts]).sum() * torch.stack(squares).sum()
            return 1 - dots * (norms + _TINY).rsqrt()

        return cosine

    def euclidean(parts: Sequence[Tensor]) -> Tensor:
        found = torch.stack(_squares(parts, target)).sum()
        if match == "april" and patches is not None:
            some = slice(patches, patches + 1)
            found = found + _APRIL * (1 - _cosines(parts[some], target[some], squares[some])).sum()
        return found

    return euclidean


def _squares(parts: Sequence[Tensor], target: Sequence[Tensor]) -> list[Tensor]:
    return [each.square().sum() for each in torch._foreach_sub(tuple(parts), tuple(target))]


def _cosines(parts: Sequence[Tensor], target: Sequence[Tensor], squares: Sequence[Tensor]) -> Tensor:
    """Tensor by tensor, float (tensors,)."""
    dots = torch.stack([(one * other).sum() for one, other in zip(parts, target, strict=True)])
    norms = torch.stack([one.square().sum() for one in parts]) * torch.stack(list(squares))
    return dots * (norms + _TINY).rsqrt()

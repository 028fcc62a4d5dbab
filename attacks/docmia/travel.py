"""Gradient descent on one document: how far the weights travel, in how many steps, and how the loss falls.

The weights are put back afterwards. Source: DocMIA (ICLR 2025), the features of fine-tuning a layer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

_DECODER: Final = re.compile(r"(^|\.)(decoder|lm_head|qa_outputs)\.")
"""Modules of a network that its answers come from."""


@dataclass(frozen=True)
class Travel:
    """The optimisation on one document.

    Attributes:
        distance: L2 norm of the change of the moved weights.
        steps: Number of steps until the loss falls by less than the tolerance, or the largest number.
        before: Loss before the first step, in nats a token.
        after: Loss after the last step.
    """

    distance: float
    steps: int
    before: float
    after: float


def travel(loss: Callable[[], Tensor], weights: Sequence[Tensor], rate: float, most: int, tolerance: float) -> Travel:
    """Descend the gradient of the loss on one document, and put the weights back.

    Args:
        loss: The loss under the present weights, float (), differentiable in them.
        weights: Tensors that are moved; each requires a gradient.
        rate: Learning rate of plain gradient descent.
        most: Largest number of steps.
        tolerance: Fall of the loss in one step below which the descent ends, in nats.
    """
    start = [weight.detach().clone() for weight in weights]
    try:
        losses = [loss()]
        before = float(losses[0].detach())
        last, steps = before, 0
        current = losses[0]
        for step in range(1, most + 1):
            gradients = torch.autograd.grad(current, list(weights))
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight.sub_(rate * gradient)
            current = loss()
            fall, last, steps = last - float(current.detach()), float(current.detach()), step
            if not fall >= tolerance:  # also where the loss is not a number
                break
        moved = [(weight.detach() - first).square().sum() for weight, first in zip(weights, start, strict=True)]
        return Travel(float(torch.stack(moved).sum().sqrt()), steps, before, last)
    finally:
        with torch.no_grad():
            for weight, first in zip(weights, start, strict=True):
                weight.copy_(first)


def last_matrices(network: nn.Module, frozen: Callable[[str], bool], count: int) -> list[nn.Parameter]:
    """The last weight matrices of the decoder and its head, or of the network; all others stop requiring a gradient.

    Args:
        frozen: Whether the parameter of a name is never trained.
        count: Number of matrices, fewer where the network has fewer.
    """
    named = [(name, one) for name, one in network.named_parameters() if one.ndim > 1 and not frozen(name)]
    late = [one for name, one in named if _DECODER.search(name)]
    chosen = (late or [one for _, one in named])[-count:]
    for one in network.parameters():
        one.requires_grad_(any(one is other for other in chosen))
    return chosen

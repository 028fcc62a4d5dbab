"""What holds of every GradientModel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pfl_audit.models.gradient_protocol import GradientModel, gradient_of
from pfl_audit.models.samples import Text


def second_derivatives_agree(model: GradientModel, pixels: Tensor, texts: Sequence[Text], seed: int = 0) -> bool:
    """Whether the slope of a gradient distance along a direction is what differences say, in double precision."""
    model.network.double()
    torch.manual_seed(seed)
    start, along = (torch.rand(pixels.shape, dtype=torch.float64) for _ in range(2))
    names = [name for name, _ in model.network.named_parameters()][::6]
    shared = gradient_of(model, pixels.double(), texts, names)

    def distance(at: Tensor, *, differentiable: bool = False) -> Tensor:
        own = gradient_of(model, at, texts, list(shared), differentiable=differentiable)
        return torch.stack([(own[name] - shared[name]).square().sum() for name in shared]).sum()

    leaf = start.clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(distance(leaf, differentiable=True), leaf)
    told, step = float((slope * along).sum()), 1e-6
    measured = float(distance(start + step * along) - distance(start - step * along)) / (2 * step)
    return abs(told) > 0 and abs(told - measured) < 1e-4 * abs(told)


def mean_of_samples(model: GradientModel, pixels: Tensor, texts: Sequence[Text]) -> float:
    """Largest difference of a batch's gradient to the mean of its samples', over the largest entry of the tensor.

    In double precision, and over 0.001 at least: the biases of keys have no gradient, and rounding is all there is.
    """
    model.network.double()
    pixels = pixels.double()
    together = gradient_of(model, pixels, texts)
    alone = [gradient_of(model, pixels[at : at + 1], texts[at : at + 1]) for at in range(len(texts))]
    means = {name: torch.stack([one[name] for one in alone]).mean(dim=0) for name in together}
    return max(
        float((together[name] - means[name]).abs().max() / means[name].abs().max().clamp_min(1e-3)) for name in together
    )

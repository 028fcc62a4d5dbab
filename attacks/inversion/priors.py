"""Image priors of GI-DQA and the schedule of their weight.

Every prior is a mean over the pixels that it looks at, on the scale 0 to 1, so that a weight means the same on fields
of every size. (The paper divides the Laplacian and the Gaussian prior by the number of pixels, equations 7 and 8, and
leaves total variation a sum, equations 9 and 10, as ``spatial_sum`` and ``channel_sum`` do; its weights belong to its
own page.)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from pfl_audit.attacks.inversion.settings import Scheduler

_LAPLACE = ((0.0, -1.0, 0.0), (-1.0, 4.0, -1.0), (0.0, -1.0, 0.0))
_SIGMA = 1.0
_REACH = 2
"""Pixels on each side of the Gaussian kernel's middle."""
_DELAY = 0.5
"""Share of the iterations after which delayed priors begin to count (GradViT's second half)."""


def visual_text(pages: Tensor, mask: Tensor) -> Tensor:
    """Mean absolute response of the 4-neighbour Laplacian kernel (equation 7).

    Args:
        pages: float (pages, channels, height, width), 0 to 1.
        mask: bool (height, width), the pixels that count.

    Returns:
        float ().
    """
    return _mean(_filtered(pages, torch.tensor(_LAPLACE)), mask)


def gaussian(pages: Tensor, mask: Tensor) -> Tensor:
    """Mean absolute difference from the picture after a Gaussian filter of standard deviation 1 (equation 8)."""
    places = torch.arange(-_REACH, _REACH + 1, dtype=torch.float32)
    bell = torch.exp(-(places**2) / (2 * _SIGMA**2))
    kernel = torch.outer(bell, bell)
    return _mean(_filtered(pages, kernel / kernel.sum()) - pages, mask)


def spatial_variation(pages: Tensor, mask: Tensor) -> Tensor:
    """Mean absolute difference to the lower and to the right neighbour (equation 9)."""
    down, right = pages.diff(dim=-2), pages.diff(dim=-1)
    return _mean(down, mask[1:] | mask[:-1]) + _mean(right, mask[:, 1:] | mask[:, :-1])


def channel_variation(pages: Tensor, mask: Tensor) -> Tensor:
    """Mean absolute difference between the channels of a pixel, over their three pairs (equation 10).

    The paper's equation names red and green twice and blue and green never; here every pair counts once.
    """
    return pages.shape[1] * _mean(pages - pages.roll(1, dims=1), mask)


def spatial_sum(pages: Tensor, mask: Tensor) -> Tensor:
    """Equation 9 as published: the sum of both differences over pixels, channels and pages."""
    down, right = pages.diff(dim=-2), pages.diff(dim=-1)
    across, along = mask[1:] | mask[:-1], mask[:, 1:] | mask[:, :-1]
    return (down.abs() * across).sum() + (right.abs() * along).sum()


def channel_sum(pages: Tensor, mask: Tensor) -> Tensor:
    """Equation 10 as published: sums over pixels of red to green, green to red and blue to red."""
    red, green, blue = pages.unbind(dim=1)
    return ((2 * (red - green).abs() + (blue - red).abs()) * mask).sum()


def window(mask: Tensor) -> tuple[slice[int, int, int], slice[int, int, int]]:
    """Rows and columns that cover the inputs of a prior: the masked pixels and their neighbours."""
    spans = ((mask.any(dim=across).nonzero().flatten(), mask.shape[1 - across]) for across in (1, 0))
    rows, columns = (slice(max(0, int(hit[0]) - _REACH), min(size, int(hit[-1]) + _REACH + 1)) for hit, size in spans)
    return rows, columns


def weight_at(scheduler: Scheduler, step: int, steps: int, decay: float) -> float:
    """Weight phi(t) of all priors at an iteration.

    Args:
        scheduler: ``decay`` as in the paper, alpha exp(-lambda t) with exp(-lambda) = ``decay``; ``constant``;
            ``delayed`` counts from the middle on, as GradViT does.
        step: Index of the iteration, from 0.
        decay: A step.
    """
    if scheduler == "decay":
        return decay**step
    return float(scheduler == "constant" or step >= _DELAY * steps)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean absolute value inside the mask: a product is quicker here than to pick the pixels."""
    pages, channels = values.shape[:2]
    return (values.abs() * mask).sum() / (pages * channels * mask.sum())


def _filtered(pages: Tensor, kernel: Tensor) -> Tensor:
    """Each channel filtered by itself; beyond its edge a page goes on as it ends."""
    reach, channels = kernel.shape[0] // 2, pages.shape[1]
    padded = functional.pad(pages, (reach,) * 4, mode="replicate")
    weights = kernel.to(pages).expand(channels, 1, *kernel.shape)
    return functional.conv2d(padded, weights, groups=channels)

"""Safe Template: a published form that gives a gradient's observer less (GI-DQA, appendix A.2).

Clients fill in the clean form; the observer has the perturbed one. Only what lies outside the private fields is
perturbed, since inside them the observer seeks every pixel anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.clients import batch_of, place_template, share
from pfl_audit.attacks.inversion.context import Truth
from pfl_audit.attacks.inversion.matching import Distance, distance, speaking
from pfl_audit.attacks.inversion.published import Order
from pfl_audit.attacks.inversion.template.template import Pixels, Template
from pfl_audit.errors import AuditError
from pfl_audit.models.gradient_protocol import GradientModel, gradient_of
from pfl_audit.models.samples import Text
from pfl_audit.progress import Silent

_STEP = 1 / 4
"""Size of a step, in budgets (alpha)."""


def random_template(model: GradientModel, template: Template, budget: int, seed: int) -> Pixels:
    """Noise that is uniform within the budget, on every pixel and channel that the network sees.

    Args:
        model: On whose page the noise lies; on a larger template every value covers several pixels, since noise that
            is finer than what the network sees is averaged away. A smaller one takes a part of it.
        template: In its own size.
        budget: Levels of 255 that a pixel may change by.

    Returns:
        uint8 (height, width, 3), of the template's size; nowhere further from it than the budget.
    """
    noise = np.random.default_rng(seed).uniform(-budget, budget, size=(*model.page, 3))
    return _published(model, template, noise, budget)


def pgd_template(order: Order) -> Pixels:
    """Signed steps that drive the gradient of the perturbed page away from the clean one's (algorithm 1).

    The distance is that of GI-DQA (equation 5), the mean over ``order.pages``. It is smallest, and flat, where nothing
    is perturbed: so the first perturbation is random, of a step's size. The strongest perturbation met is the result.

    Args:
        order: What to perturb; a step is a quarter of the budget.

    Returns:
        uint8 (height, width, 3), of the template's size; nowhere further from it than the budget.

    Raises:
        UsageError: No field is large enough on what the network sees.
        NotAuditableError: The clean gradient is zero.
        AuditError: A gradient or a distance is no finite number.
    """
    goals = [_goal(order.model, page) for page in order.pages]
    lowest, highest = _bounds(order.model, order.template, order.budget)
    step = _STEP * order.budget / 255
    start = torch.rand(lowest.shape, generator=torch.Generator().manual_seed(order.seed))
    change = _within(step * (2 * start.to(lowest) - 1), lowest, highest)
    best, most = change, -1.0
    with order.progress.task(f"perturbing within {order.budget}/255", order.steps + 1) as task:
        for _ in range(order.steps + 1):
            value, slope = _climb(order.model, goals, change)
            if value > most:
                best, most = change, value
            change = _within(change + step * slope.sign(), lowest, highest)
            task.advance(note=f"distance {value:.3g}")
    levels = 255 * best.permute(1, 2, 0).cpu().double().numpy()
    return _published(order.model, order.template, levels, order.budget)


class RandomTemplate:
    """Noise, which looks at no gradient."""

    name = "random"

    def perturb(self, order: Order) -> Pixels:
        """See ``random_template``."""
        return random_template(order.model, order.template, order.budget, order.seed)


class PgdTemplate:
    """Projected gradient descent against the observer."""

    name = "pgd"

    def perturb(self, order: Order) -> Pixels:
        """See ``pgd_template``."""
        return pgd_template(order)


RANDOM = RandomTemplate()
PGD = PgdTemplate()


@dataclass(frozen=True, eq=False)
class _Goal:
    """A clean page, and how far a gradient is from its own."""

    pixels: Tensor
    texts: Sequence[Text]
    names: Sequence[str]
    apart: Distance


def _goal(model: GradientModel, page: Truth) -> _Goal:
    clean = share(model, [page])
    pixels, texts = batch_of(model, [page])
    names = speaking(clean)
    return _Goal(pixels, texts, names, distance("layered", [clean[name].to(pixels.device) for name in names]))


def _climb(model: GradientModel, goals: Sequence[_Goal], change: Tensor) -> tuple[float, Tensor]:
    """Mean distance of the perturbed pages' gradients from the clean ones, and where it grows."""
    total, slope = 0.0, torch.zeros_like(change)
    for goal in goals:
        own = change.clone().requires_grad_(True)
        parts = gradient_of(model, goal.pixels + own, goal.texts, goal.names, differentiable=True)
        value = goal.apart([parts[name] for name in goal.names])
        slope += torch.autograd.grad(value, own)[0] / len(goals)
        total += float(value.detach()) / len(goals)
    if not np.isfinite(total) or not torch.isfinite(slope).all():
        raise AuditError("the distance of the gradients is no finite number", "Check the model")
    return total, slope


def _bounds(model: GradientModel, template: Template, budget: int) -> tuple[Tensor, Tensor]:
    """Least and most that each pixel of the network's page may change by: float32 (3, height, width), of 1.

    Inside the fields, and where no template lies, nothing may.
    """
    placed = place_template(model, template, Silent())
    (rows, columns), (left, top, right, bottom) = model.page, model.place((0.0, 0.0, 1.0, 1.0), template.size)
    free = np.zeros((rows, columns, 1), dtype=bool)
    free[max(0, floor(top * rows)) : ceil(bottom * rows), max(0, floor(left * columns)) : ceil(right * columns)] = True
    free[placed.mask()] = False
    room, device = budget / 255, next(model.network.parameters()).device
    bounds = (np.maximum(-room, -placed.page) * free, np.minimum(room, 1 - placed.page) * free)
    lowest, highest = (torch.from_numpy(bound.astype(np.float32)).permute(2, 0, 1).to(device) for bound in bounds)
    return lowest, highest


def _within(change: Tensor, lowest: Tensor, highest: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(change, lowest), highest)


def _published(model: GradientModel, template: Template, change: NDArray[np.float64], budget: int) -> Pixels:
    """The template with a change of the network's page, in whole levels and within the budget.

    Args:
        template: In its own size.
        change: float64 (*model.page, 3), in levels of 255.
        budget: In levels of 255.
    """
    levels = np.rint(change).clip(-budget, budget).astype(np.int16)
    moved = levels[_places(model, template)]
    moved[template.mask()] = 0
    return np.asarray((template.pixels + moved).clip(0, 255), dtype=np.uint8)


def _places(model: GradientModel, template: Template) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column on the network's page of the middle of every pixel: two of (height, width).

    The way there is affine, turned pages included, so that three corners tell it.
    """
    (width, height), page = template.size, np.array(model.page)
    corners = [
        np.array(model.place((x, y, x, y), (width, height))[:2]) for x, y in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
    ]
    across, down = ((np.arange(side) + 0.5) / side for side in (width, height))
    found = []
    for axis, side in ((1, page[0]), (0, page[1])):
        origin, right, below = (corner[axis] for corner in corners)
        shares = origin + across[None, :] * (right - origin) + down[:, None] * (below - origin)
        found.append(np.floor(shares * side).clip(0, side - 1).astype(np.intp))
    return found[0], found[1]

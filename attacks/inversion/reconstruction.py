"""Reconstruction of one document from one gradient by optimisation (GI-DQA, section 3.3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion import priors
from pfl_audit.attacks.inversion.canvas import Canvas
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.attacks.inversion.matching import distance, speaking
from pfl_audit.attacks.inversion.methods import Method
from pfl_audit.attacks.inversion.search import Objective, Trace, search
from pfl_audit.attacks.inversion.settings import InversionSettings, Variation
from pfl_audit.attacks.inversion.texts import Given
from pfl_audit.models.gradient_protocol import GradientModel, gradient_of
from pfl_audit.models.samples import Text
from pfl_audit.progress import Progress

Prior = Callable[[Tensor, Tensor], Tensor]
_DECAY = 0.999**5000
"""What remains of the priors after all iterations, however many these are (section 4.1: 0.999 a step, 5,000 steps)."""
_VARIATIONS: Final[Mapping[Variation, tuple[Prior, Prior]]] = {
    "mean": (priors.spatial_variation, priors.channel_variation),
    "sum": (priors.spatial_sum, priors.channel_sum),
}
_VARIATION = 1e-2
"""Of total variation where it is the only prior (Inverting Gradients; there 1e-6 to 1e-1 on sums)."""


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """Result of a search.

    Attributes:
        pages: uint8 (height, width, 3), one a sample of the batch.
        trace: Objective over the iterations.
        tensors: Number of tensors of the gradient that were matched.
    """

    pages: tuple[NDArray[np.uint8], ...]
    trace: Trace
    tensors: int


def reconstruct(
    model: GradientModel,
    seen: Observation,
    given: Given,
    method: Method,
    settings: InversionSettings,
    seed: int,
    progress: Progress,
    label: str,
    state: Path | None = None,
) -> Reconstruction:
    """Search for the page.

    Args:
        model: Model of the shared gradient, with its weights at that step.
        given: Inputs besides the pixels, as the observer assumes them, and what is known of the pixels.
        state: File for the state of a search that is killed.

    Raises:
        NotAuditableError: The gradient has nothing in the layers that are to be matched.
        AuditError: The distance of the gradients is no number.
    """
    method = adapt(method, settings)
    device = next(model.network.parameters()).device
    canvas = Canvas(seen.template, whole=not method.template, grey=method.grey, pages=seen.batch, device=device)
    names = speaking(seen.gradient, settings.layers, model.fusion)
    generator = torch.Generator().manual_seed(seed)
    objective = objective_of(model, seen, given.texts, method, settings, canvas, names)
    start = canvas.start(settings.init or method.start, generator, given.page)
    with _denormals_flushed():
        found, trace = search(
            objective, start, method, settings.iterations, progress, label, state, early_end=settings.early_end
        )
    return Reconstruction(tuple(canvas.image(found, page) for page in range(seen.batch)), trace, len(names))


@contextmanager
def _denormals_flushed() -> Iterator[None]:
    """Sharp attention is all but nought nearly everywhere, and such numbers are slow."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def adapt(method: Method, settings: InversionSettings) -> Method:
    """The method with the knowledge and the learning rate that the settings give it."""
    if method.priors == "gi-dqa" and settings.rate is not None:
        method = replace(method, rate=settings.rate, fall=settings.rate_decay**settings.iterations)
    return replace(method, template=True) if settings.knowledge == "template" else method


def objective_of(
    model: GradientModel,
    seen: Observation,
    texts: Sequence[Text],
    method: Method,
    settings: InversionSettings,
    canvas: Canvas,
    names: Sequence[str],
) -> Objective:
    """Distance of the gradients, and the priors as far as they count (equation 4)."""
    patches = names.index(model.patch_embedding) if model.patch_embedding in names else None
    shared = [seen.gradient[name].to(canvas.mask.device) for name in names]
    apart = distance(method.match, shared, patches, scaled=settings.scaled)

    def objective(sought: Tensor, step: int) -> Tensor:
        pages = canvas.pages(sought)
        parts = gradient_of(model, pages, texts, names, differentiable=True)
        value = apart([parts[name] for name in names])
        if method.priors == "variation":
            return value + _VARIATION * priors.spatial_variation(pages, canvas.mask)
        if method.priors == "gi-dqa":
            decay = _DECAY ** (1 / settings.iterations)
            weight = priors.weight_at(settings.scheduler, step, settings.iterations, decay)
            if weight:
                value = value + weight * _prior(pages, canvas.mask, settings)
        return value

    return objective


def _prior(pages: Tensor, mask: Tensor, settings: InversionSettings) -> Tensor:
    """R_aux of equation 4; a prior without weight is not computed."""
    rows, columns = priors.window(mask)
    pages, mask = pages[..., rows, columns], mask[rows, columns]
    channels = settings.alpha_tv if settings.alpha_tvc is None else settings.alpha_tvc
    spatial, colours = _VARIATIONS[settings.variation]
    terms = (
        (settings.alpha_txt, priors.visual_text),
        (settings.alpha_gau, priors.gaussian),
        (settings.alpha_tv, spatial),
        (channels, colours),
    )
    return torch.stack([pages.new_zeros(()), *(weight * prior(pages, mask) for weight, prior in terms if weight)]).sum()

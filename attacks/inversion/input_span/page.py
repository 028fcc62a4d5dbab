"""The page's pixels, where the client trains the layer that is given its patches."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import TOO_MUCH, Cause, Limit, missing
from pfl_audit.attacks.inversion.analytic.noise import noise_of
from pfl_audit.attacks.inversion.analytic.pixels import Page, read_pixels
from pfl_audit.attacks.inversion.analytic.tables import find_tensor
from pfl_audit.models.word_tables import PageInput

EXACT = 0.5 / 255
"""Error of a pixel below which a page of 8 bits is exact."""
_LEFT = 0.01
"""Share of the projection's gradient that steps and noise may leave of one page; of several, much more is left."""


def read_page(
    update: Mapping[str, Tensor], names: PageInput, weights: Mapping[str, Tensor], blank: Tensor
) -> Page | Limit:
    """Solve for the pixels.

    Args:
        update: By parameter.
        weights: By parameter, for their shapes.
        blank: The empty form, float (3, height, width), 0 to 1.

    Returns:
        The page, or why there is none.
    """

    def shared(ending: str) -> Tensor | None:
        found = (tuple(part.shape) for name, part in weights.items() if name.endswith(ending))
        return find_tensor(update, ending, next(found))

    positions, projection = shared(names.positions), shared(names.projection)
    if positions is None or projection is None:
        return missing("the page encoder's patches", "pixels are unknown, and so is the order of words")
    if not positions[0, 1:].any():
        return Limit(Cause.NOISE, "pixels: the signals of all patches are zero, rounded or left out")
    noise = noise_of([], positions, None)
    found = read_pixels(positions, projection, shared(names.bias), noise, names.scale, blank)
    if found.excess > TOO_MUCH and found.residual > _LEFT:
        why = f"no page explains the projection's gradient, {found.residual:.1%} of it is left"
        return Limit(Cause.MIXED, f"pixels: {why}: more than one page, more than one step, or noise")
    return found

"""Patches of a page, as a model's patch projection is given them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pfl_audit.documents.document import as_boxes
from pfl_audit.errors import NotAuditableError
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.samples import Sample

WHOLE = np.array([[0.1, 0.1, 0.2, 0.2]], dtype=np.float32)


@dataclass(frozen=True, eq=False)
class PatchInput:
    """What the patch projection of a model is given.

    Attributes:
        weight: Name of its weight, (width, channels, side, side).
        bias: Name of its bias, (width,).
        side: Side of a patch in pixels.
        black: float64 (3,), what a black pixel is given as.
        white: float64 (3,), what a white pixel is given as.
    """

    weight: str
    bias: str
    side: int
    black: Floats
    white: Floats

    def cut(self, page: Floats | NDArray[np.bool_]) -> Floats:
        """Divide a page into patches; what is left at the right and below is not seen.

        Args:
            page: float (height, width, 3), 0 to 1, or (n, height, width, 3).

        Returns:
            float64 (..., rows, columns, 3, side, side).
        """
        rows, columns = (length // self.side for length in page.shape[-3:-1])
        inner = page[..., : rows * self.side, : columns * self.side, :]
        split = inner.reshape(*page.shape[:-3], rows, self.side, columns, self.side, page.shape[-1])
        return np.asarray(np.moveaxis(np.swapaxes(split, -4, -3), -1, -3))


class _SeenError(Exception):
    """The projection was reached."""


def patch_input(model: GradientModel) -> PatchInput:
    """How a model's pixels reach its patch projection, from what a black and a white page become in front of it.

    Raises:
        NotAuditableError: The model has no patch projection.
    """
    name = model.patch_embedding
    if name is None:
        raise NotAuditableError("this model sees no page: it has no patches", "Use a method that reads words")
    projection = model.network.get_parameter(name)
    rows, columns = model.page
    sample = Sample("a", "a", ("a",), as_boxes(WHOLE, 1))
    text = model.text(sample)
    given: list[torch.Tensor] = []

    def stop(_: torch.nn.Module, arguments: tuple[object, ...], named: dict[str, object]) -> None:
        given.append(next(each for each in (*arguments, *named.values()) if isinstance(each, torch.Tensor)))
        raise _SeenError

    # Of the module around the projection: a fused forward pass calls none inside.
    around = model.network.get_submodule(name.rsplit(".", 2)[0])
    handle = around.register_forward_pre_hook(stop, with_kwargs=True)
    try:
        for level in (0.0, 1.0):
            try:
                device = projection.device
                model.loss(torch.full((1, 3, rows, columns), level, device=device), [text])
            except _SeenError:
                pass
    finally:
        handle.remove()
    black, white = (np.asarray(each[0, :, 0, 0].detach().double().cpu()) for each in given)
    return PatchInput(name, name.removesuffix("weight") + "bias", int(projection.shape[-1]), black, white)

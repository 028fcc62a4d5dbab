"""Unknown pixels: those inside the fields of a known form, or all of an unknown page."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.settings import Start
from pfl_audit.attacks.inversion.template.template import Template


class Canvas:
    """Pages with unknown pixels.

    Args:
        template: The form, as the network sees it.
        whole: Seek all pixels, and use nothing of the template but its size.
        grey: Seek one number a pixel, for ink is grey; else three.
        device: Where the pages are computed.

    Attributes:
        mask: bool (height, width), the pixels that are sought.
    """

    def __init__(
        self,
        template: Template,
        *,
        whole: bool = False,
        grey: bool = False,
        pages: int = 1,
        device: torch.device | str = "cpu",
    ) -> None:
        mask = np.ones(template.pixels.shape[:2], dtype=bool) if whole else template.mask()
        self.mask = torch.from_numpy(mask).to(device)
        known = np.full_like(template.page, 0.5) if whole else template.page
        self._known = torch.from_numpy(known).permute(2, 0, 1).contiguous().to(device)
        self._places = self.mask.flatten().nonzero()[:, 0]
        self._shape = (pages, 1 if grey else 3, int(mask.sum()))

    def start(self, how: Start, generator: torch.Generator, page: Tensor | None = None) -> Tensor:
        """Initial value of the search: float32 (pages, 1 or 3, unknown pixels).

        Args:
            how: ``template``, the empty form itself; ``noise``, uniform between black and white.
            generator: Random generator of the noise, of the CPU: the same noise on every device.
            page: Float (3, height, width), what is known of the page already, in the place of the empty form.
        """
        if how == "noise":
            return torch.rand(self._shape, generator=generator).to(self.mask.device)
        inside = (self._known if page is None else page.to(self.mask.device))[:, self.mask]
        inside = inside.mean(dim=0, keepdim=True) if self._shape[1] == 1 else inside
        return inside.expand(self._shape).clone()

    def pages(self, sought: Tensor) -> Tensor:
        """The pages with the sought pixels in their places: float32 (pages, 3, height, width), differentiable."""
        known = self._known.flatten(1).expand(len(sought), -1, -1)
        return known.index_copy(2, self._places, sought.expand(-1, 3, -1)).view(-1, *self._known.shape)

    def image(self, sought: Tensor, page: int = 0) -> NDArray[np.uint8]:
        """One of the pages as a picture, uint8 (height, width, 3)."""
        return picture_of(self.pages(sought.detach())[page])


def picture_of(pixels: Tensor) -> NDArray[np.uint8]:
    """Float (3, height, width) in 0 to 1 as a picture, uint8 (height, width, 3)."""
    return np.asarray((pixels.permute(1, 2, 0).clamp(0, 1) * 255).round().cpu().numpy(), dtype=np.uint8)

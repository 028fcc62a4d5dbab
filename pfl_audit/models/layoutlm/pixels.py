"""Image preprocessing of LayoutLMv3, by what its folder says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from pfl_audit.models.layoutlm.config import QaConfig
from pfl_audit.models.pixels import Normalisation, normalisation, reading_image_settings
from pfl_audit.models.settings import whole

_LARGEST = 1 << 12
_ALWAYS = {"do_resize": "resizing", "do_rescale": "rescaling"}


@dataclass(frozen=True)
class PixelSettings(Normalisation):
    """How a page becomes pixels.

    Attributes:
        size: Width and height, without regard to the page's proportions.
    """

    size: tuple[int, int]

    def pixels(self, page: Image.Image | None) -> Tensor:
        """The page's pixels, float32 (3, height, width). A page without an image is white, as in VT5."""
        page = page if page is not None else Image.new("RGB", self.size, (255, 255, 255))
        small = np.asarray(page.resize(self.size, Image.Resampling(self.resample)), dtype=np.float32) / 255
        scaled = (small - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        return torch.from_numpy(np.ascontiguousarray(scaled.transpose(2, 0, 1)))


def pixel_settings(folder: Path, config: QaConfig) -> PixelSettings:
    """Read a folder's ``image_settings``; without any, the model's size and transformers' values.

    Raises:
        AuditError: A setting that is none, or that the model's patches do not fit.
    """
    with reading_image_settings(folder, _ALWAYS, "LayoutLMv3's", "Correct it, or delete it") as said:
        return PixelSettings(_size(said.get("size", int(config.network.input_size)), config), **normalisation(said))


def _size(value: Any, config: QaConfig) -> tuple[int, int]:
    sides = (value["width"], value["height"]) if isinstance(value, Mapping) else (value, value)
    width, height = (whole("size", side, 1, _LARGEST) for side in sides)
    if {side // int(config.network.patch_size) for side in (width, height)} != {config.patches}:
        raise ValueError(
            f"{width} x {height} pixels do not make the {config.patches} x {config.patches} patches of config.json"
        )
    return width, height

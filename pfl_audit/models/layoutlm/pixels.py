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

from pfl_audit.errors import AuditError
from pfl_audit.models.layoutlm.config import QaConfig
from pfl_audit.models.pixels import Normalisation, image_settings, normalisation
from pfl_audit.models.settings import whole

_LARGEST = 1 << 12


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
    file, content = image_settings(folder)
    try:
        if not isinstance(content, Mapping):
            raise TypeError("it is not a JSON object")
        said = {name: value for name, value in content.items() if value is not None}
        if not all(said.get(name, True) is True for name in ("do_resize", "do_rescale")):
            raise ValueError("it leaves out resizing or rescaling")
        if said.get("do_center_crop", False) is not False:
            raise ValueError("it crops pages, which LayoutLMv3's does not")
        return PixelSettings(_size(said.get("size", int(config.network.input_size)), config), **normalisation(said))
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise AuditError(
            f"{folder / file} cannot be used: {' '.join(str(error).split())[:200]}", "Correct it, or delete it"
        ) from error


def _size(value: Any, config: QaConfig) -> tuple[int, int]:
    sides = (value["width"], value["height"]) if isinstance(value, Mapping) else (value, value)
    width, height = (whole("size", side, 1, _LARGEST) for side in sides)
    if {side // int(config.network.patch_size) for side in (width, height)} != {config.patches}:
        raise ValueError(
            f"{width} x {height} pixels do not make the {config.patches} x {config.patches} patches of config.json"
        )
    return width, height

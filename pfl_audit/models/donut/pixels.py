"""Image preprocessing of Donut, by what its folder says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from pfl_audit.models.donut.config import LARGEST_SIDE, DonutConfig
from pfl_audit.models.pixels import Normalisation, normalisation, reading_image_settings
from pfl_audit.models.settings import whole

_ALWAYS = {"do_resize": "resizing", "do_thumbnail": "the thumbnail", "do_pad": "padding", "do_rescale": "rescaling"}


@dataclass(frozen=True)
class PixelSettings(Normalisation):
    """How a page becomes pixels.

    Attributes:
        page: Height and width of the network's page in pixels. A page of other proportions is scaled to fit, and black
            is put around it.
        turn: Whether a page of the other orientation than ``page`` is rotated by 90 degrees, clockwise.
    """

    page: tuple[int, int]
    turn: bool = False

    def pixels(self, page: Image.Image | None) -> Tensor:
        """The page's pixels, float32 (3, height, width). A page without an image is white, as in VT5."""
        height, width = self.page
        page = page if page is not None else Image.new("RGB", (width, height), (255, 255, 255))
        pixels: Tensor = _processor(self)(page, return_tensors="pt")["pixel_values"][0]
        return pixels.to(torch.float32)

    def to_dict(self) -> dict[str, Any]:
        """As ``preprocessor_config.json`` has it."""
        return {
            "image_processor_type": "DonutImageProcessor",
            "size": {"height": self.page[0], "width": self.page[1]},
            "image_mean": list(self.mean),
            "image_std": list(self.std),
            "resample": self.resample,
            "do_align_long_axis": self.turn,
            "do_normalize": True,
            **dict.fromkeys(_ALWAYS, True),
        }


def pixel_settings(folder: Path, config: DonutConfig) -> PixelSettings:
    """Read a folder's ``image_settings``; without any, the model's own page and transformers' values.

    Raises:
        AuditError: A setting that is none, or a page that the network cannot see.
    """
    with reading_image_settings(folder, _ALWAYS, "Donut's", "Compare it with the checkpoint's source") as said:
        if not isinstance(turn := said.get("do_align_long_axis", False), bool):
            raise ValueError("do_align_long_axis is neither true nor false")
        page = _page(said["size"]) if "size" in said else config.page
        settings = PixelSettings(page, turn, **normalisation(said))
        config.require_page(settings.page)
        return settings


def _page(value: Any) -> tuple[int, int]:
    """Height and width: a mapping says which is which, a list of the older releases has the width first."""
    if isinstance(value, Mapping):
        sides = (value["height"], value["width"])
    elif isinstance(value, list):
        width, height = value
        sides = (height, width)
    else:
        sides = (value, value)
    height, width = (whole("size", side, 1, LARGEST_SIDE) for side in sides)
    return height, width


@lru_cache(maxsize=4)
def _processor(settings: PixelSettings) -> Any:
    from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil

    values = settings.to_dict()
    del values["image_processor_type"]
    return DonutImageProcessorPil(**values)

"""What the image preprocessing of all families has in common: scaling to 0..1, mean and standard deviation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from pfl_audit.documents.document import Document
from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_there
from pfl_audit.models.settings import whole
from pfl_audit.models.weights import CONFIG, read_settings

PREPROCESSOR = "preprocessor_config.json"
PROCESSOR = "processor_config.json"
_MIDDLE = (0.5, 0.5, 0.5)


@dataclass(frozen=True, kw_only=True)
class Normalisation(ABC):
    """How a page becomes pixels, apart from its size.

    Attributes:
        mean: Mean of each channel, subtracted after scaling to 0..1.
        std: Standard deviation of each channel, divided by after that.
        resample: Pillow's number of the filter; bilinear where the file says nothing.
    """

    mean: tuple[float, ...] = _MIDDLE
    std: tuple[float, ...] = _MIDDLE
    resample: int = int(Image.Resampling.BILINEAR)

    @abstractmethod
    def pixels(self, page: Image.Image | None) -> Tensor:
        """The page's pixels, float32 (3, height, width)."""

    def of_document(self, document: Document) -> Tensor:
        """As of ``pixels``.

        Raises:
            UnanswerableError: The image cannot be read.
        """
        return self.pixels(document.image.open() if document.image else None)

    def plain(self, page: Image.Image | None) -> Tensor:
        """The page's pixels without normalisation, uint8 (3, height, width)."""
        unscaled = replace(self, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
        return (255 * unscaled.pixels(page)).round().to(torch.uint8)

    def normalised(self, pixels: Tensor) -> Tensor:
        """Pixels of 0 to 1, float (..., 3, height, width), as ``pixels`` has them."""
        mean, std = (pixels.new_tensor(values).view(3, 1, 1) for values in (self.mean, self.std))
        return (pixels - mean) / std


def image_settings(folder: Path) -> tuple[str, Any]:
    """What a checkpoint folder says of image preprocessing, and the name of the file.

    It is ``image_processor`` in ``processor_config.json``, as transformers 5 writes it, else
    ``preprocessor_config.json``, in this order as there; nothing, of ``config.json``, without either.
    """
    content = read_settings(folder / PROCESSOR)
    if not isinstance(content, Mapping):
        return PROCESSOR, content
    if content.get("image_processor") is not None:
        return PROCESSOR, content["image_processor"]
    return (PREPROCESSOR, read_settings(folder / PREPROCESSOR)) if is_there(folder / PREPROCESSOR) else (CONFIG, {})


@contextmanager
def reading_image_settings(folder: Path, steps: Mapping[str, str], whose: str, remedy: str) -> Iterator[dict[str, Any]]:
    """The settings of ``image_settings`` that are given, by name, while a family reads them.

    Args:
        folder: The checkpoint.
        steps: Switch that must not be off to what it leaves out.
        whose: The family, for messages.
        remedy: Remedy of every error.

    Raises:
        AuditError: A setting that is none, or that the family's pages cannot have.
    """
    name, content = image_settings(folder)
    try:
        if not isinstance(content, Mapping):
            raise TypeError("it is not a JSON object")
        said = {key: value for key, value in content.items() if value is not None}
        if not all(said.get(step, True) is True for step in steps):
            *others, last = steps.values()
            raise ValueError(f"it leaves out {', '.join(others)} or {last}")
        if said.get("do_center_crop", False) is not False:
            raise ValueError(f"it crops pages, which {whose} does not")
        yield said
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise AuditError(f"{folder / name} cannot be used: {reason}", remedy) from error


def normalisation(said: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of Normalisation from ``image_settings``; transformers' values where there are none.

    Raises:
        ValueError: With the name of the setting; or TypeError, KeyError or OverflowError.
    """
    if "rescale_factor" in said and abs(float(said["rescale_factor"]) * 255 - 1) > 1e-6:
        raise ValueError("rescale_factor is not 1/255")
    resample = whole("resample", said.get("resample", int(Image.Resampling.BILINEAR)), 0, 5)
    if said.get("do_normalize", True) is not True:
        return {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0), "resample": resample}
    mean = _channels("image_mean", said.get("image_mean", _MIDDLE))
    std = _channels("image_std", said.get("image_std", _MIDDLE), zero=False)
    return {"mean": mean, "std": std, "resample": resample}


def _channels(name: str, value: Any, *, zero: bool = True) -> tuple[float, ...]:
    numbers = tuple(float(number) for number in value)
    if len(numbers) != 3 or not all(isfinite(number) and (zero or number != 0) for number in numbers):
        raise ValueError(f"{name} is not three numbers")
    return numbers

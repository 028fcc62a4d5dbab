"""What a page image looks like: statistics of its pixels, a thumbnail and a perceptual hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pfl_audit.documents.document import Document
from pfl_audit.errors import UnanswerableError
from pfl_audit.metrics.arrays import Bools

THUMBNAIL: Final = 32
"""Side in pixels of the thumbnail."""
_HASH: Final = 8
"""Rows and columns of the lowest frequencies that the hash is taken from."""
_SIDE: Final = 256
"""Longest side in pixels of the reduced image that the statistics are taken from."""


@dataclass(frozen=True)
class PageLook:
    """What is kept of a page image.

    Attributes:
        statistics: Size, brightness, contrast, sharpness and colour.
        thumbnail: Grey values, uint8 (THUMBNAIL, THUMBNAIL).
        bits: Perceptual hash, bool (64,): which of the lowest frequencies of the thumbnail's discrete cosine transform
            are above their median (pHash: Zauner, "Implementation and benchmarking of perceptual image hash functions",
            2010).
    """

    statistics: Mapping[str, float]
    thumbnail: NDArray[np.uint8]
    bits: Bools


def page_look(page: Document) -> PageLook | None:
    """Open the image of a page; None where there is none that can be read."""
    if page.image is None:
        return None
    try:
        return look_of(page.image.open())
    except UnanswerableError:
        return None


def look_of(full: Image.Image) -> PageLook:
    """Describe an image.

    Args:
        full: RGB.
    """
    width, height = full.size
    small = full.reduce(max(1, max(full.size) // _SIDE))
    planes = [np.asarray(plane, dtype=np.float64) / 255 for plane in small.split()]
    grey = np.mean(planes, axis=0)
    statistics = {
        "width": width,
        "height": height,
        "aspect": width / height,
        "brightness": float(grey.mean()),
        "contrast": float(grey.std()),
        "dark share": float((grey < 0.5).mean()),
        "paper": float(np.median(grey)),
        "sharpness": float(np.abs(np.diff(grey, axis=1)).mean()) if grey.shape[1] > 1 else 0.0,
        "colour": float((np.max(planes, axis=0) - np.min(planes, axis=0)).mean()),
    }
    thumbnail = np.asarray(small.convert("L").resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX), dtype=np.uint8)
    low = cv2.dct(thumbnail.astype(np.float64))[:_HASH, :_HASH].ravel()
    return PageLook(statistics, thumbnail, np.asarray(low > np.median(low)))


class PageLooks:
    """Looks of the pages that were opened, so that each image is opened once.

    Attributes:
        found: Page to its look; pages of two corpora may have the same id.
    """

    def __init__(self) -> None:
        self.found: dict[Document, PageLook] = {}

    def unusable(self, page: Document) -> str | None:
        """Open the image of a page and keep its look; the reason where it cannot be opened."""
        if page.image is None:
            return None
        try:
            self.found[page] = look_of(page.image.open())
        except UnanswerableError as error:
            return error.reason
        return None

    def of(self, page: Document) -> PageLook | None:
        """The look of a page, or None where its image was not opened."""
        return self.found.get(page)

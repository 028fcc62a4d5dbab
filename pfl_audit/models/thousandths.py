"""Boxes in thousandths of the page, as LayoutLM and its kin take them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pfl_audit.documents.document import Boxes

_ROUNDING = 1e-4
"""More than float32 takes off a share times 1,000; less than a page narrower than 10,000 pixels makes of one pixel."""


def thousandths(boxes: Boxes, highest: int = 1000) -> NDArray[np.int64]:
    """Whole thousandths of the page, rounded down as transformers does (``normalize_box``): int64 (n, 4).

    Args:
        boxes: float32 (n, 4), shares of the page; one that was made of whole thousandths comes out as it went in.
        highest: Largest value.
    """
    return np.clip(np.floor(boxes.astype(np.float64) * 1000 + _ROUNDING), 0, highest).astype(np.int64)

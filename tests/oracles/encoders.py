"""Form encoders, slowly: one box, one token, one window at a time."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def roi_align(
    features: NDArray[np.float64], boxes: NDArray[np.float64], page: list[int], bins: int
) -> NDArray[np.float64]:
    """features (pages, c, h, w), boxes (b, n, 4) in shares: (b, n, c)."""
    _, channels, height, width = features.shape
    out = np.zeros((*boxes.shape[:2], channels))
    for row in range(boxes.shape[0]):
        for token in range(boxes.shape[1]):
            left, top, right, bottom = boxes[row, token]
            for i in range(bins):
                for j in range(bins):
                    x = (left + (right - left) * (j + 0.5) / bins) * width - 0.5
                    y = (top + (bottom - top) * (i + 0.5) / bins) * height - 0.5
                    out[row, token] += bilinear(features[page[row]], x, y) / bins**2
    return out


def bilinear(image: NDArray[np.float64], x: float, y: float) -> NDArray[np.float64]:
    """The value of image (c, h, w) between its cells, whose centres are the whole numbers."""
    _, height, width = image.shape
    x, y = min(max(x, 0.0), width - 1.0), min(max(y, 0.0), height - 1.0)
    left, top = min(int(x), width - 1), min(int(y), height - 1)
    right, bottom = min(left + 1, width - 1), min(top + 1, height - 1)
    upper = image[:, top, left] * (left + 1 - x) + image[:, top, right] * (x - left)
    lower = image[:, bottom, left] * (left + 1 - x) + image[:, bottom, right] * (x - left)
    return upper * (top + 1 - y) + lower * (y - top)


def cross_entropy(logits: list[float], label: int) -> float:
    """Negative log-likelihood of one label."""
    highest = max(logits)
    return highest + math.log(sum(math.exp(value - highest) for value in logits)) - logits[label]

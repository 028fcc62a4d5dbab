"""Rounding of a difference of weights.

Both weights are rounded to single precision, so that their difference is a whole number of the steps between numbers of
their size, and has the errors of both.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]

_WHOLE: Final = 1e-3
"""Largest distance from a whole number that is one."""
_MOST: Final = 0.99
"""Share of whole numbers from which on an update is a difference of weights: of a gradient 0.2 % are."""
_DIFFERENCE: Final = 2 * sqrt(2 / 12)
"""Standard deviation of the rounding of both weights, in half steps."""


def rounding_of(sent_as: Tensor, weights: Tensor) -> Floats | None:
    """Standard deviation of the rounding of an entry of each row, float64 (rows,).

    Args:
        sent_as: The update as it was sent, (rows, width).
        weights: What it was added to.

    Returns:
        None if the update is no difference of weights in single precision.
    """
    steps = np.spacing(np.abs(weights.detach().float().cpu().numpy())).astype(np.float64) / 2
    many = sent_as.double().cpu().numpy() / steps
    if float((np.abs(many - np.round(many)) < _WHOLE).mean()) <= _MOST:
        return None
    return np.asarray(np.sqrt((steps**2).mean(axis=1)) * _DIFFERENCE)

"""Rounding of a difference of weights.

An optimiser's step rounds the weights once, to the step between numbers of their new size. What they were before is
known exactly, and two numbers of about one size are subtracted without an error (Sterbenz, Floating-point computation,
1974), so that a difference after one step has the errors of one rounding: uniform, with a standard deviation of a step
over the root of 12, or smaller where the change is less than half a step. Weights are on that grid when the next step
begins: equal gradients are rounded equally, and the errors of n steps add up to n times as much. Of gradients that
change they add up to the root of n.

AdamW with weight decay rounds twice in a step, once for the decay. Its steps leave signs, which are read without this.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np
from torch import Tensor

from pfl_audit.metrics.arrays import Floats

_WHOLE: Final = 1e-3
"""Largest distance from a whole number that is one."""
_MOST: Final = 0.99
"""Share of whole numbers from which on an update is a difference of weights: of a gradient 0.2 % are."""
_ROUNDED: Final = 1 / sqrt(12)
"""Standard deviation of a rounding, in steps."""


def rounding_of(sent_as: Tensor, weights: Tensor, steps: int = 1) -> Floats | None:
    """Standard deviation of the rounding of an entry of each row, float64 (rows,), at most.

    Args:
        sent_as: The update as it was sent, (rows, width).
        weights: What it was added to.
        steps: Optimiser steps without a decay of their own, each of which rounds.

    Returns:
        None if the update is no difference of weights in single precision.
    """
    before, moved = weights.detach().double().cpu().numpy(), sent_as.double().cpu().numpy()
    coarse = [np.spacing(np.abs(part).astype(np.float32)).astype(np.float64) for part in (before, before + moved)]
    many = moved / np.minimum(*coarse)
    if float((np.abs(many - np.round(many)) < _WHOLE).mean()) <= _MOST:
        return None
    return np.asarray(steps * _ROUNDED * np.sqrt((coarse[1] ** 2).mean(axis=1)))

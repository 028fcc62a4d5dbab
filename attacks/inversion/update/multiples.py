"""Whether the numbers of matrices are whole multiples of steps, as of integers with a scale for a tensor, row or block.

Quantised numbers are seldom equal in the short rows of adapters, and in matrices of 8 bits, which have many levels. But
some neighbouring numbers of a row share one step in each of these codecs, and are multiples of it up to single
precision; other numbers are so with a probability below 1e-8. A difference of two rounded weights also consists of
multiples of a step. That step is a power of two, and is not taken for one of a codec.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.metrics.arrays import Floats

_MOST: Final = 255
"""Largest multiple: that of 8 bits, whichever number represents zero."""
_NEIGHBOURS: Final = 16
"""First numbers of a row that are looked at; blocks of codecs are larger."""
_ROWS: Final = 16
"""Rows of a matrix that are looked at, evenly."""
SIZES: Final = 4
"""Least number of different sizes in a row; fewer are multiples of a step by chance."""
_ROUNDING: Final = 8 * 2.0**-24
"""Relative error of a number over its step, of products and quotients in single precision."""
_POWER: Final = 1e-5
"""Relative distance from a power of two that a step has at least."""


def levels_of_steps(parts: Sequence[Tensor]) -> int | None:
    """Levels of the numbers, where those of most matrices are whole multiples of a step.

    Args:
        parts: float32 (rows, columns) each.

    Returns:
        Twice the largest multiple and one, 511 at most; None where most matrices have other numbers.
    """
    found = list[int]()
    for count, part in enumerate(parts):
        if 2 * sum(most > 0 for most in found) + len(parts) - count <= len(found):  # whatever the rest is
            return None
        if (most := _largest_multiple(part)) is not None:
            found.append(most)
    return 2 * max(found) + 1 if 2 * sum(most > 0 for most in found) > len(found) else None


def _largest_multiple(part: Tensor) -> int | None:
    """Largest multiple in a matrix; zero if most rows are no multiples, None if none can be looked at."""
    rows = part[:: max(1, len(part) // _ROWS)].cpu().double().numpy()
    runs = np.abs(rows[:, :_NEIGHBOURS])
    ordered = np.sort(runs, axis=1)
    sizes = (ordered[:, 1:] > ordered[:, :-1]).sum(axis=1) + (ordered[:, 0] > 0)
    rows, runs = rows[sizes >= SIZES], runs[sizes >= SIZES]
    if not len(rows):
        return None
    peaks, counts = runs.max(axis=1), np.arange(1, _MOST + 1)
    scaled = runs[:, None] * (counts / peaks[:, None])[:, :, None]
    fits = np.abs(scaled - np.rint(scaled)).max(axis=2) <= _ROUNDING * counts
    steps = peaks / counts[fits.argmax(axis=1)]
    coded = fits.any(axis=1) & ~_power_of_two(steps)
    if 2 * int(coded.sum()) <= len(rows):
        return 0
    return max(map(_multiples, rows[coded], steps[coded], runs[coded]))


def _power_of_two(steps: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.abs(np.exp2(np.rint(np.log2(steps))) / steps - 1) < _POWER)


def _multiples(row: Floats, step: float, run: Floats) -> int:
    """Largest multiple of a row's step in it, or in the part of it that the step was found in."""
    scaled = np.abs(row) / step
    whole = np.abs(scaled - np.rint(scaled)).max() <= _ROUNDING * _MOST and scaled.max() < _MOST + 1 / 2
    return int(np.rint(scaled.max() if whole else run.max() / step))

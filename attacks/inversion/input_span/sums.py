"""Sums of the error signals of every token and of every box, in the coordinates in which both can be compared.

The signal of a position is added to the row of its token in the table of words, and the spatial matcher's gradient is
sum_b D_b LayerNorm(b)^T, with D_b the sum of the signals of the positions with box b: least squares give every D_b,
unless LayerNorms depend on one another. Rows of a tied table have a gradient of the output as well, the directions of
which are left out of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pfl_audit.metrics.arrays import Bools, Floats

_ALONE: Final = 0.99
"""Leverage from which on a box is no combination of others."""
_DEPENDS: Final = 1e-6
"""Share of the largest singular value below which boxes are combinations of one another."""
_ERRORS: Final = 3.0
"""Times the size of its errors up to which a sum may be nothing."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of signals.

    Attributes:
        values: float64 (n, dimensions).
        errors: float64 (n,), standard deviation of the errors of an entry.
        known: bool (n,), whether the sum is determined.
    """

    values: Floats
    errors: Floats
    known: Bools

    def less(self, at: int, values: Floats, error: float) -> Sums:
        """The same without a part of one sum."""
        changed, errors = self.values.copy(), self.errors.copy()
        changed[at] -= values
        errors[at] = float(np.hypot(errors[at], error))
        return Sums(changed, errors, self.known)

    @property
    def nothing(self) -> Bools:
        """Which sums the errors explain, bool (n,)."""
        lengths = np.linalg.norm(self.values, axis=1)
        return np.asarray(self.known & (lengths <= _ERRORS * self.errors * np.sqrt(self.values.shape[1])))


def of_tokens(rows: Floats, output: Floats, rounding: float, sigma: float) -> Sums:
    """Sums of tokens.

    Args:
        rows: float64 (n, width), of the table of words.
        output: float64 (width, k), orthonormal directions of the output.
        rounding: Relative error of an entry.
        sigma: Standard deviation of what every entry has beside that.
    """
    errors = np.hypot(sigma, rounding * np.linalg.norm(rows, axis=1) / np.sqrt(rows.shape[1]))
    return Sums(rows @ _rest(output), np.maximum(errors, 1e-300), np.ones(len(rows), bool))


def of_boxes(matcher: Floats, placed: Floats, output: Floats, rounding: float, sigma: float) -> Sums:
    """Sums of boxes.

    Args:
        matcher: float64 (width, width), gradient of the spatial matcher.
        placed: float64 (m, width), LayerNorm of all boxes.
        output: As of ``of_tokens``.
        rounding: As of ``of_tokens``.
        sigma: As of ``of_tokens``.
    """
    left, values, right = np.linalg.svd(placed, full_matrices=False)
    held = values > _DEPENDS * values[0]
    inverse = (right[held].T / values[held]) @ left[:, held].T
    entries = np.hypot(sigma, rounding * np.linalg.norm(matcher, axis=0) / np.sqrt(len(matcher)))
    errors = np.sqrt(np.square(inverse * entries[:, None]).sum(axis=0))
    known = np.square(left[:, held]).sum(axis=1) > _ALONE
    return Sums((matcher @ inverse).T @ _rest(output), np.maximum(errors, 1e-300), known)


def _rest(output: Floats) -> Floats:
    """All other directions, float64 (width, width - k)."""
    width, count = output.shape
    return np.asarray(np.linalg.qr(np.concatenate([output, np.eye(width)], axis=1))[0][:, count:width])

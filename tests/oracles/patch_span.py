"""Distance of a patch from a span over all values of its unknown pixels, by least squares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.strings.patch_span import PatchSpan

Floats = NDArray[np.float64]


def least_outside(span: PatchSpan, patch: Floats, unknown: NDArray[np.bool_]) -> float:
    """The least length outside the span, of a patch float64 (width,) with any values in place of the unknown."""
    known = np.where(unknown, 0.0, patch)
    base = span.basis.beside(known @ span.beside)
    moves = np.array([span.basis.beside(span.beside[at]) for at in np.flatnonzero(unknown)])
    if not len(moves):
        return float(np.linalg.norm(base))
    best, *_ = np.linalg.lstsq(moves.T, -base, rcond=None)
    return float(np.linalg.norm(base + moves.T @ best))

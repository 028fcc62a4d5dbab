"""Whether inputs lost numbers by dropout: a known input lies in the span once some of its numbers are zero.

Dropout draws a mask m for every position, so that m x is in the span and x is not. With U the directions outside,

    U^T (x - z x) = 0,   z = 1 - m

has few equations for as many unknown numbers as the input is wide, but z is 0 or 1, and mostly 0. Linear programs that
weigh numbers by those of the one before (Candes, Wakin and Boyd, Enhancing sparsity by reweighted l1 minimization,
2008) end at such a z if there is one, and else at one with about as many other numbers as there are equations.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from pfl_audit.attacks.inversion.input_span.basis import Basis
from pfl_audit.metrics.arrays import Floats

_PROGRAMS: Final = 5
_ERRORS: Final = 4.0
"""Standard deviations by which an equation may be off."""
_WHOLE: Final = 0.05
"""Distance from 0 or 1 up to which a number is one of them."""
_FEW: Final = 0.25
"""Other numbers over the equations, up to which there is a mask."""
_SHARES: Final = (0.01, 0.5)
"""Share of zeros that a mask of dropout has."""
_WEIGHT: Final = 0.1
"""Of the reweighting: numbers below it are pressed to zero."""


def share_dropped(basis: Basis, vector: Floats) -> float | None:
    """Share of the numbers of an input that dropout set to zero; None if no mask brings it into the span.

    Args:
        basis: Span of a layer's inputs.
        vector: float64 (width,), without dropout.
    """
    if not basis.informative:
        return None
    equations = ((vector / basis.scales)[:, None] * basis.outside).T
    whole = equations.sum(axis=1)
    error = _ERRORS * float(np.sqrt(np.square(basis.turned(vector)).sum()))
    near = LinearConstraint(equations, whole - error, whole + error)
    costs, before = np.ones(len(vector)), len(vector)
    for _ in range(_PROGRAMS):
        solved = milp(costs, constraints=near, bounds=Bounds(0, 1))  # linprog has two rows for two bounds
        if solved.x is None:
            return None
        other = int((np.minimum(solved.x, 1 - solved.x) > _WHOLE).sum())
        if other < _FEW * len(equations) and _SHARES[0] < float((solved.x > 1 / 2).mean()) < _SHARES[1]:
            return float((solved.x > 1 / 2).mean())
        if other >= before:  # nor does a program after it come nearer to a mask
            return None
        before = other
        costs = 1 / (solved.x + _WEIGHT)
    return None

"""Which vectors of a dictionary the rows of adapters are combinations of, with what is known taken out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.adapters.certainty import certain
from pfl_audit.attacks.inversion.adapters.likeliest import likeliest
from pfl_audit.attacks.inversion.adapters.pursuit import LEAST_OUTSIDE, pursue
from pfl_audit.attacks.inversion.adapters.rows import Halves
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.metrics.arrays import Bools, Floats, Integers

_ABOVE: Final = 1.5
"""Times the largest singular value of independent errors (Marchenko and Pastur), up to which nothing is left."""
_DEPENDENT: Final = 4.0
"""Times the norm of all errors, the same in single precision, whose errors are of the computation: not independent."""
_START: Final = 0.8
"""Share of the room that is taken by likelihood where the pursuit alone does not end."""
_COARSE: Final = 2.0**-20
"""Relative error of an entry above which it is one of rounding before the update was sent."""
_DEPENDS: Final = 1e-9
"""Share of the largest singular value below which a direction is none."""


@dataclass(frozen=True)
class Levels:
    """Errors of rows that are divided by their size: shares of independent ones, and of those of a computation."""

    added: float
    rounded: float

    def edge(self, rows: int, many: int) -> float:
        """Largest singular value of errors, of so many rows and columns."""
        independent = _ABOVE * (sqrt(rows) + sqrt(many)) * self.added
        return independent + _DEPENDENT * sqrt(rows * many) * self.rounded

    @property
    def coarse(self) -> bool:
        """Whether most errors are those of noise, or of rounding before the update was sent."""
        return self.added > self.rounded

    @property
    def entry(self) -> float:
        """Standard deviation of the error of an entry, where those of a computation are taken as dependent."""
        return self.added + _DEPENDENT * self.rounded


def in_errors(rows: Floats, noise: Noise, errors: Floats) -> tuple[Floats, Levels]:
    """Rows divided by the size of their errors.

    Args:
        rows: float64 (k, width).
        errors: float64 (k,), of weights that were subtracted.
    """
    added = noise.sigma**2 + errors[:, None] ** 2
    rounded = (noise.rounding * rows).std(axis=1, keepdims=True) ** 2
    if noise.everywhere or noise.rounding > _COARSE:
        added, rounded = added + rounded, 0 * rounded
    size = np.sqrt(added + rounded)
    return rows / size, Levels(float((np.sqrt(added) / size).max()), float((np.sqrt(rounded) / size).max()))


def outside_of(spans: Sequence[Floats]) -> Floats:
    """Orthonormal directions outside of some vectors, float64 (width, m).

    Args:
        spans: float64 (n, width) each; each is brought to one size by itself.
    """
    every = np.concatenate(
        [each / max(float(np.linalg.norm(each, 2)), 1e-300) if each.size else each for each in spans]
    )
    if not len(every):
        return np.eye(every.shape[1])
    _, values, directions = np.linalg.svd(every, full_matrices=True)
    return np.asarray(directions[int((values > _DEPENDS * values[0]).sum()) :].T)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Vectors that explain rows.

    Attributes:
        chosen: int64 (n,), numbers of the vectors, in the order in which they were taken.
        ends: Whether errors explain what they leave.
        sure: bool (n,), those that every other vector in their place would leave more than errors of.
        strong: bool (n,), those that no errors are as strong as.
        edge: Largest singular value of errors alone.
        free: float64 (width, m), orthonormal directions outside of what was taken out.
    """

    chosen: Integers
    ends: bool
    sure: Bools
    strong: Bools
    edge: float
    free: Floats


def room_in(free: Floats) -> int:
    """How many vectors there may be at most in directions, float64 (width, m)."""
    return max(0, int(free.shape[1]) - LEAST_OUTSIDE)


def explain(rows: Floats, levels: Levels, dictionary: Floats, free: Floats, public: Integers) -> Explanation:
    """Take as few vectors as possible.

    Args:
        rows: float64 (k, width), as of ``in_errors``.
        dictionary: float64 (vectors, width).
        free: As of ``Explanation``.
        public: int64 (n,), numbers of vectors that are not looked for.
    """
    edge, rows, dictionary = levels.edge(len(rows), free.shape[1]), rows @ free, dictionary @ free
    dictionary[public] = 0.0
    found = pursue(rows, dictionary, edge)
    if not found.ends:
        start = likeliest(rows, dictionary, edge, int(_START * room_in(free)))
        found = pursue(rows, dictionary, edge, start.tolist())
    sure, strong = certain(rows, dictionary, found, edge)
    return Explanation(found.chosen, found.ends, sure, strong, edge, free)


def unsure_limits(found: Explanation, tokens: Bools, levels: Levels, noise: Noise) -> tuple[Limit, ...]:
    """Why some of the tokens that explain rows are not certain.

    Args:
        tokens: bool (n,), vectors of the explanation that are tokens.
    """
    unsure, count = int((tokens & ~found.sure & (found.strong | levels.coarse)).sum()), int(tokens.sum())
    if not unsure:
        return ()
    errors = f"noise of {noise.sigma:.0e} an entry" if noise.everywhere else "rounding"
    return (Limit(Cause.NOISE, f"tokens: {errors} leaves {unsure} of {count} unsure"),)


def silent(halves: Halves) -> Limit:
    """Why no row of the halves A holds anything."""
    if not halves.rank:
        return missing("the halves A of adapters", "tokens are unknown")
    if not halves.first:
        return Limit(Cause.NOISE, "tokens: the rounding of the weights explains all of the adapters' rows")
    why = "the halves B are zero, as in the first round, and so are the gradients of the halves A"
    only = f"inputs show in {halves.rank} directions alone, fewer than they are"
    return Limit(Cause.FIRST, f"tokens: {why}: {only}")


def crowded(taken: int, width: int, many: int, used: Sequence[str]) -> Limit:
    """Why no vectors explain rows.

    Args:
        taken: Number of vectors that were tried.
        width: Width of the rows.
        many: Directions that are left of them.
        used: What takes the others, in words.
    """
    listed = f"{', '.join(used[:-1])} and {used[-1]}" if used[1:] else used[0]
    why = f"of {width} directions {listed} leave {many}, and {taken} tokens do not explain the adapters' rows"
    return Limit(
        Cause.CROWDED, f"tokens: {why}: there are more, or the update is of another model, dropped out or noisy"
    )

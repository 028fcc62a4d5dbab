"""Span of a page's patches in the gradient of the patch projection, and how far a patch lies outside.

dL/dK = sum_p s_p x_p^T,   dL/db = sum_p s_p

so the rows of [dL/dK, dL/db] are combinations of the vectors [x_p, 1]. The patches of the form outside its private
fields are known; taken out, the rows are combinations of the private patches alone, all of which lie in their span
where they are fewer than the projection is wide, and fewer, with the form's, than a patch has numbers.

Of a patch some pixels may be unknown, where it is not yet said what is written there. It is in the span with some
values of them if what is known of it lies in the span of what is known of the private patches.

Source: the span test of ``input_span.basis`` (DAGER, Petrov et al. 2024), on patches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pfl_audit.attacks.inversion.input_span.basis import Basis, bases_of
from pfl_audit.metrics.arrays import Bools, Floats

_SAME = 1e-9
"""Share of the largest singular value of the form's patches below which a direction is none of theirs."""
_OWN = 1e-3
"""Share of a patch that others do not make up, below which it says nothing."""
LEFT_OUT = 24
"""Patches of the form that are tested."""
LEAST_TEST = 8
"""Numbers outside the span below which a random patch may lie in it."""


@dataclass(frozen=True, eq=False)
class Test:
    """How patches are tested that have the same unknown pixels.

    Attributes:
        outside: float64 (numbers, width), coordinates outside the span that no value of the unknown pixels changes.
        turned: float64 (rank, width), what errors make of the patch with its likeliest unknown pixels.
    """

    outside: Floats
    turned: Floats


@dataclass(frozen=True, eq=False)
class PatchSpan:
    """The span of private patches beside those of the form.

    Attributes:
        beside: float64 (width, width - form), directions without patches of the form.
        basis: Span of the private patches in these.
        form: Directions of the form's patches.
        outputs: Width of the projection.
    """

    beside: Floats
    basis: Basis
    form: int
    outputs: int
    _tests: dict[bytes, Test | None] = field(default_factory=dict)

    @property
    def informative(self) -> bool:
        """Whether it holds something, and not everything."""
        return self.basis.informative and self.basis.rank < self.outputs

    def test(self, unknown: Bools) -> Test | None:
        """The test of patches with these unknown pixels; None where it would tell nothing.

        Args:
            unknown: bool (width,).
        """
        key = unknown.tobytes()
        if key not in self._tests:
            self._tests[key] = self._made(unknown)
        return self._tests[key]

    def _made(self, unknown: Bools) -> Test | None:
        scaled = self.beside / self.basis.scales
        outside = (scaled @ self.basis.outside).T
        turned = (scaled @ self.basis.inside / self.basis.strengths).T
        if unknown.any():
            left, values, right = np.linalg.svd(outside[:, unknown], full_matrices=True)
            rank = int((values > _SAME * values[0]).sum())
            inverse = (right[:rank].T / values[:rank]) @ left[:, :rank].T
            turned = turned - turned[:, unknown] @ (inverse @ outside)
            outside = left[:, rank:].T @ outside
            outside[:, unknown] = turned[:, unknown] = 0.0
        return Test(outside, turned) if len(outside) >= LEAST_TEST else None


def span_of(rows: Floats, errors: Floats, form: Floats) -> PatchSpan:
    """The span of the patches that are not the form's.

    Args:
        rows: float64 (outputs, width), gradient of weight and bias side by side.
        errors: float64 (outputs,), size of the errors of each row, up to a common factor.
        form: float64 (n, width), patches of the form that hold nothing private.
    """
    _, values, directions = np.linalg.svd(form, full_matrices=True)
    known = int((values > _SAME * values[0]).sum()) if len(values) else 0
    beside = directions[known:].T
    return PatchSpan(beside, bases_of(rows / errors[:, None] @ beside, 0.0, 1.0)[0], known, len(rows))


def usual_excess(rows: Floats, errors: Floats, form: Floats) -> Floats:
    """Excess of patches that are known to be on the page: those of the form, each as if it were not known.

    Args:
        rows: As of ``span_of``; likewise ``errors`` and ``form``.

    Returns:
        float64 (at most LEFT_OUT,); none of patches that others make up.
    """
    found = []
    for number in range(0, len(form), max(1, len(form) // LEFT_OUT)):
        span = span_of(rows, errors, np.delete(form, number, axis=0))
        left = form[number] @ span.beside
        if span.informative and np.linalg.norm(left) > _OWN * np.linalg.norm(form[number]):
            found.append(float(span.basis.excess_of(left[None])[0]))
    return np.array(found)

"""What noise of a stated size allows at most: the only ground on which an audit may say that nothing comes back.

With Gaussian noise of sigma on every entry, two pages whose updates are a distance D apart cannot be distinguished
better than two normal distributions that are D / sigma apart: an observer who is right with probability k without the
update is right with Phi(Phi^-1(k) + D / sigma) at most with it (Dong, Roth and Su, Gaussian differential privacy, 2022;
Hayes, Mahloujifar and Balle, Bounding training data reconstruction in DP-SGD, 2023). An update that was clipped to a
norm C is 2 C at most from any other. Where nothing was clipped, D is measured on other fillings of the form, and holds
for those alone: it is printed, and shows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from pfl_audit.privacy.reconstruction import largest_reconstruction

HALF = 0.5
SMALL = 0.05
"""By how much a guess among two pages may gain, up to which an update is said to give nothing away."""


@dataclass(frozen=True)
class NoiseBound:
    """Bound of what an observer of a noisy update gains.

    Attributes:
        sigma: Stated standard deviation of the noise on every entry.
        apart: Largest distance between updates of two pages, as a norm over all entries.
        measured: Number of other fillings that it was measured on; None where it follows from clipping.
        unit: What the updates are apart in.
        messages: Number of updates that are taken together.
    """

    sigma: float
    apart: float
    measured: int | None = None
    unit: str = "page"
    messages: int = 1

    def largest(self, prior: float) -> float:
        """Largest chance to be right, of who is right with probability ``prior`` without the update."""
        shift = self.apart / self.sigma

        def trade_off(levels: NDArray[np.float64]) -> NDArray[np.float64]:
            return ndtr(ndtri(levels) + shift)

        return largest_reconstruction(trade_off, prior)

    @property
    def shows(self) -> bool:
        """Whether the update gives next to nothing away, even of which of two pages it is, whatever the pages are."""
        return self.measured is None and self.largest(HALF) <= HALF + SMALL

    @property
    def needed(self) -> float:
        """The noise from which on it would."""
        return self.apart / float(ndtri(HALF + SMALL) - ndtri(HALF))

    @property
    def words(self) -> str:
        """Sentences for the report."""
        of = (
            "clipping"
            if self.measured is None
            else f"the largest distance of {self.measured} other fillings, for which alone this holds"
        )
        who = f"an observer of {self.messages} messages" if self.messages > 1 else "an observer"
        text = (
            f"With the stated noise of {self.sigma:.2g} an entry, {who} who chooses between the {self.unit} "
            f"and one other is right in {100 * self.largest(HALF):.1f} % of cases at most (by guessing 50 %), by {of}."
        )
        if self.largest(HALF) > HALF + SMALL:
            text += f" Noise of {self.needed:.2g} would bring this to {100 * (HALF + SMALL):.0f} %."
        return text


def together(bounds: Sequence[NoiseBound]) -> NoiseBound:
    """What several updates of one client allow together, each with noise of its own.

    Distances over the noise add up as squares (Dong, Roth and Su, Gaussian differential privacy, 2022, corollary 3.3).

    Args:
        bounds: At least one, all of one unit.
    """
    sigma = min(bound.sigma for bound in bounds)
    apart = hypot(*(bound.apart / bound.sigma for bound in bounds)) * sigma
    return replace(bounds[0], sigma=sigma, apart=apart, messages=len(bounds))

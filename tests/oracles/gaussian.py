"""The Gaussian mechanism without sampling, whose trade-off curve has a closed form."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from pfl_audit.privacy.lower_bounds import Floats


@dataclass(frozen=True)
class Gaussian:
    """Gaussian mechanism without sampling, mu-GDP (Dong, Roth and Su 2022, "Gaussian Differential Privacy").

    Attributes:
        mu: Shift over standard deviation, at least 0; the root of T over sigma for T rounds.
    """

    mu: float

    def trade_off(self, fprs: Floats) -> Floats:
        """Largest TPR at each FPR, float (n,) (section 2.3, equation 6)."""
        return ndtr(ndtri(fprs) + self.mu)

    def epsilon(self, delta: float) -> float:
        """Epsilon at a delta between 0 and 1 (Balle and Wang 2018, theorem 8)."""

        def excess(epsilon: float) -> float:
            middle = epsilon / self.mu
            return float(ndtr(self.mu / 2 - middle) - np.exp(epsilon + log_ndtr(-self.mu / 2 - middle))) - delta

        if self.mu == 0 or excess(0.0) <= 0:
            return 0.0
        high = 1.0
        while excess(high) > 0:
            high *= 2
        return float(brentq(excess, 0.0, high))

"""Cost of a search over hyper-parameters of which the best trial alone is released.

Papernot and Steinke 2022, "Hyperparameter Tuning with Renyi Differential Privacy": the number of trials is drawn
beforehand, each trial draws its hyper-parameters with replacement from a distribution that depends on no data, and
nothing but the best trial is released. A fixed number of trials is composed, whatever is released of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import expm1, log
from typing import Final

import numpy as np
from scipy.optimize import brentq

from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import check_parameters, privacy_spent
from pfl_audit.privacy.loss_distribution import Floats
from pfl_audit.privacy.pld import Kind
from pfl_audit.privacy.renyi import ORDERS, round_moments, to_epsilon
from pfl_audit.privacy.sampling import Sampling, TrialsDrawn

_MOST = 1e6
_SLACK: Final = 1e-9
"""Share by which the parameter of a distribution is moved to the side of the larger cost, for its rounding."""


@dataclass(frozen=True)
class Search:
    """A search.

    Attributes:
        trials: Number of trials, from 1; of a drawn number the mean.
        drawn: Distribution of the number.
        shape: eta of the truncated negative binomial distribution, above -1: 1 is geometric, 0 logarithmic.
    """

    trials: float
    drawn: TrialsDrawn
    shape: float = 1.0

    def check(self) -> None:
        """Raise UsageError if a value is out of range."""
        if not 1 <= self.trials <= _MOST or (self.drawn == "fixed" and self.trials % 1):
            whole = "a whole number" if self.drawn == "fixed" else "a mean"
            raise UsageError(f"a search of {self.trials:g} trials cannot be accounted", f"Give {whole} from 1 to 10^6")
        if self.drawn == "negative-binomial" and (not -1 < self.shape <= 100 or self.trials == 1):
            raise UsageError(
                "a truncated negative binomial has a shape from -1 to 100 and a mean above 1", "Correct it"
            )

    @property
    def words(self) -> str:
        """Number of trials, and what of them is released."""
        if self.drawn == "fixed":
            return f"{self.trials:g} trials, all of them composed"
        number = f"a number of trials drawn beforehand ({self.drawn}, mean {self.trials:g})"
        none = "; where none is drawn, something that depends on no data" if self.drawn == "poisson" else ""
        return f"{number}, each drawn with replacement, where the best alone is released{none}"

    def epsilon(self, sampling: Sampling, noise_multiplier: float, delta: float, kind: Kind = "poisson") -> float:
        """Upper bound of epsilon of the released trial, at least 0.

        Args:
            sampling: Sampling and rounds of each trial.
            noise_multiplier: Standard deviation of the noise of each trial divided by its clipping norm, above 0.
            delta: Target delta, between 0 and 1.
            kind: How the units of a round are drawn.

        Raises:
            UsageError: A value is out of range.
        """
        self.check()
        check_parameters(sampling, noise_multiplier, delta)
        if self.drawn == "fixed":
            every = replace(sampling, rounds=sampling.rounds * int(self.trials))
            return privacy_spent(every, noise_multiplier, delta, kind=kind).epsilon
        orders = np.array(ORDERS)
        one = sampling.rounds * round_moments(sampling, noise_multiplier, orders, kind) / (orders - 1)
        more = self._poisson(orders, one) if self.drawn == "poisson" else self._negative_binomial(orders, one)
        return to_epsilon(orders, one + more + log(self.trials * (1 + _SLACK)) / (orders - 1), delta)

    def _poisson(self, orders: Floats, divergences: Floats) -> Floats:
        """Mu times delta-hat of theorem 6, where exp(epsilon-hat) is 1 + 1 / (order - 1) for each order."""
        small = np.log1p(1 / (orders - 1))[:, None]
        # Canonne, Kamath and Steinke 2020, proposition 12, solved for delta; every order gives an upper bound.
        logs = (orders - 1) * (divergences - small + np.log1p(-1 / orders)) - np.log(orders)
        found: Floats = self.trials * np.exp(np.minimum(logs.min(axis=1), 0.0))
        return found

    def _negative_binomial(self, orders: Floats, divergences: Floats) -> float:
        """Summand of theorem 2 that does not depend on the order, at the best order lambda-hat."""
        stop = self._stop() * (1 - _SLACK)
        return float(np.min((1 + self.shape) * ((1 - 1 / orders) * divergences - log(stop) / orders)))

    def _stop(self) -> float:
        """Parameter gamma of the distribution with this mean (definition 1), between 0 and 1.

        Raises:
            UsageError: No distribution of the shape has this mean.
        """

        def excess(logit: float) -> float:
            return log(_mean(float(np.exp(logit)), self.shape)) - log(self.trials)

        low, high = log(1e-300) / 4, -1e-12
        if not excess(high) < 0 < excess(low):
            raise UsageError(
                f"no truncated negative binomial of shape {self.shape:g} has a mean of {self.trials:g}",
                "Give --trials-shape nearer to 0, or another --trials",
            )
        return float(np.exp(brentq(excess, low, high, xtol=1e-13)))


def _mean(stop: float, shape: float) -> float:
    """Mean of a truncated negative binomial distribution (definition 1)."""
    odds = 1 / stop - 1
    return odds / -log(stop) if shape == 0 else shape * odds / -expm1(shape * log(stop))

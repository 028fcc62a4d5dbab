"""Accountant of the subsampled Gaussian mechanism: epsilon, delta, total variation and the trade-off curve.

All results are upper bounds for adaptive composition: errors of discretisation, rounding, truncation and wrapping are
on the safe side. Rounds without sampling have a closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri
from scipy.stats import binom

from pfl_audit.privacy.composition import Window, compose, delta_of, epsilon_of
from pfl_audit.privacy.loss_distribution import (
    Floats,
    LossDistribution,
    mixed_with_nothing,
    round_loss,
    sampled_loss,
    symmetric_loss,
)
from pfl_audit.privacy.sampling import Sampling

Kind = Literal["poisson", "fixed-size", "schedule"]
"""``poisson``: independent draws, adjacency by adding or removing a provider. ``fixed-size``: a group of fixed size
without replacement, adjacency by replacing a provider, whose update changes by up to twice the clipping norm.
``schedule``: no draws, adjacency by a provider whose updates are zero in the rounds of its schedule."""

_CELLS = 1 << 17
_GROUPS = 2000
_ORDERS = np.geomspace(1e-4, 1e5, 120)
_CUT = 1e-4
"""Share of delta that truncation may add."""
_REACH = 20.0
"""Largest output of a round that is represented, in standard deviations."""
_HIGHEST_LOSS = 600.0
"""Loss of a round above which exp overflows; such little noise is accounted without sampling."""
_SMALLEST_RATE = 1e-12
_RARE_CUT = 2e-2
"""The same where rare large losses decide the moments."""
_PASSES = (None, None, None, None, _CUT, _RARE_CUT, _CUT)
"""Shares of delta that are left out of the moments in each pass for delta; each pass cuts off relative to the last."""
_LOWER, _NEAR, _BETTER = 0.7, 0.95, 0.99
"""Shares of epsilon: that a next tilt is chosen for at first and at last, and below which a bound counts as better."""
_NO_DELTA = 1e-250
"""Delta below which its Chernoff bound is enough."""
_CURVE_DELTA = 1e-9
"""Delta down to which the trade-off curve is represented."""


@dataclass(frozen=True)
class SampledGaussian:
    """A run of the subsampled Gaussian mechanism, with participation of clients known to the adversary.

    Attributes:
        sampling: Sampling of clients and providers, and the number of rounds.
        noise_multiplier: Standard deviation of the noise divided by the clipping norm, above 0.
        kind: How the providers of a round are drawn.
    """

    sampling: Sampling
    noise_multiplier: float
    kind: Kind = "poisson"

    def epsilon(self, delta: float) -> float:
        """Upper bound of epsilon at ``delta``, at least 0, for both directions of the adjacency."""
        if self._closed:
            return _Closed(self.sampling, self._noise).epsilon(delta)
        return max(self._epsilon(delta, added) for added in self._directions)

    def delta(self, epsilon: float) -> float:
        """Upper bound of delta at ``epsilon`` of at least 0, for both directions of the adjacency."""
        if self._closed:
            return float(_Closed(self.sampling, self._noise).deltas(np.array([epsilon]))[0])
        return max(self._delta(epsilon, added) for added in self._directions)

    def _epsilon(self, delta: float, added: bool) -> float:
        moments = _Moments(self, added)
        tilt, assumed = moments.order_for(math.log(delta))
        found = epsilon_of(self._composed(moments, tilt, assumed / 2, delta), delta)
        if not 0 < found < assumed / 2:
            return found
        # Rare large losses decide the moments and not epsilon. Without them, and for a smaller epsilon, the tilt leaves
        # smaller errors of rounding where delta is decided; every tilt gives an upper bound.
        moments, share = _Moments(self, added, delta, _RARE_CUT), _LOWER
        while found > 0 and share < _NEAR:
            tilt, _ = moments.tilt_at(share * found)
            better = epsilon_of(self._composed(moments, tilt, share * found / 2, delta), delta)
            share = share if better < _BETTER * found else math.sqrt(share)
            found = min(found, better)
        return found

    def _delta(self, epsilon: float, added: bool) -> float:
        whole = _Moments(self, added)
        tilt, found = whole.tilt_at(epsilon)
        for cut in _PASSES:
            if found < _NO_DELTA:
                break
            moments = _Moments(self, added, found, cut) if cut else whole
            tilt, _ = moments.tilt_at(epsilon)
            composed = self._composed(moments, tilt, epsilon, found)
            found = min(found, float(delta_of(composed, np.array([epsilon]))[0]))
        return found

    @property
    def total_variation(self) -> float:
        """Largest difference of TPR and FPR of an attack; the largest balanced accuracy is (1 + this) / 2."""
        return float(self._deltas(np.zeros(1))[0])

    def trade_off(self, fprs: Floats) -> Floats:
        """Largest TPR of a membership attack on one provider at each FPR, float, elementwise.

        It is the smallest of delta(e) + exp(e) FPR over a grid of e of both signs, and so an upper bound.
        """
        deltas, factors = self._lines
        crossings = -np.diff(deltas) / np.diff(factors)  # at which the next line becomes the lower one, decreasing
        index = len(deltas) - 1 - np.searchsorted(np.maximum.accumulate(crossings[::-1]), fprs)
        return np.minimum(deltas[index] + factors[index] * fprs, 1.0)

    def __post_init__(self) -> None:
        run = self.sampling  # rates next to nothing are raised: more sampling costs more
        rates = max(run.client_rate, _SMALLEST_RATE), max(run.provider_rate, _SMALLEST_RATE)
        object.__setattr__(self, "sampling", Sampling(*rates, run.rounds))

    @property
    def _noise(self) -> float:
        return self.noise_multiplier / (2 if self.kind == "fixed-size" else 1)

    @property
    def _closed(self) -> bool:
        """Whether providers are not sampled, or noise is so low that sampling hides next to nothing."""
        if self.sampling.provider_rate == 1:
            return True
        return sampled_loss(1 + _REACH * self._noise, self.sampling.provider_rate, self._noise) > _HIGHEST_LOSS

    @property
    def _directions(self) -> tuple[bool, ...]:
        return (False,) if self.kind == "fixed-size" else (False, True)

    def _furthest(self, delta: float, cut: float, *, added: bool) -> float:
        """Output with the largest loss that is represented: what lies beyond adds at most a share of ``delta``."""
        share = delta * cut / self.sampling.rounds / 2
        least = float(ndtr(-_REACH))
        without = -float(ndtri(max(share, least)))
        if added:
            return -without * self._noise
        drawn = -float(ndtri(min(0.5, max(share / self.sampling.provider_rate, least))))
        return max(without * self._noise, 1 + drawn * self._noise)

    @cached_property
    def _curve(self) -> LossDistribution:
        """Composed loss without a tilt, which all parts of the curve share."""
        return self._composed(_Moments(self, added=False), 0.0, 0.0, _CURVE_DELTA)

    @cached_property
    def _lines(self) -> tuple[Floats, Floats]:
        """Intercepts delta(e) and slopes exp(e) of the lines above the trade-off curve, both float (4001,)."""
        epsilons = np.linspace(-self._reach, self._reach, 4001)
        return self._deltas(epsilons), np.exp(epsilons)

    @cached_property
    def _reach(self) -> float:
        """Largest loss of the curve in absolute value, as far as exp does not overflow."""
        closed = self._closed
        last = _Closed(self.sampling, self._noise).epsilon(_CURVE_DELTA) if closed else float(self._curve.losses[-1])
        return min(last, _HIGHEST_LOSS)

    def _deltas(self, epsilons: Floats) -> Floats:
        """Delta of removing at each epsilon, of any sign."""
        if self._closed:
            return _Closed(self.sampling, self._noise).deltas(epsilons)
        found = delta_of(self._curve, np.maximum(epsilons, self._curve.losses[0]))
        return np.where(epsilons < self._curve.losses[0], 1.0, found)

    def _composed(self, moments: _Moments, tilt: float, epsilon: float, delta: float) -> LossDistribution:
        """Composed loss, precise at epsilons from ``epsilon`` on and deltas down to ``delta``."""
        rounds, rate = self.sampling.rounds, self.sampling.client_rate
        cut = math.log(delta * _CUT)
        top_order, top = moments.order_for(cut)
        bottom = min(moments.lowest(tilt), -1e-3 * top)
        top = max(top, bottom + moments.width(tilt, epsilon, cut))
        cells = max(_CELLS, 1 << math.ceil(math.log2(200 * math.sqrt(rounds))))
        step = (top - bottom) / (cells - 4)
        p, noise = self.sampling.provider_rate, self._noise
        output = moments.output or self._furthest(delta, _CUT, added=moments.added)
        high = -sampled_loss(output, p, noise) if moments.added else sampled_loss(output, p, noise)
        one = round_loss(
            p, noise, step, min(moments.lowest_of_a_round(tilt), -step), max(high, step), added=moments.added
        )
        one = symmetric_loss(one) if self.kind == "fixed-size" else one
        window = Window(math.floor(bottom / step), cells, tilt, top_order)
        return compose(mixed_with_nothing(one, rate), rounds, window)


class _Closed:
    """Rounds without sampling of providers: a binomial number of Gaussian rounds, which the adversary sees.

    Source: Balle and Wang 2018, "Improving the Gaussian Mechanism for Differential Privacy", theorem 8.

    Args:
        sampling: Sampling of clients and the number of rounds; every provider of a client takes part.
        noise: Noise multiplier.
    """

    def __init__(self, sampling: Sampling, noise: float) -> None:
        active = binom(sampling.rounds, sampling.client_rate)
        low, high = (int(end) for end in active.interval(1 - 1e-15)) if sampling.client_rate < 1 else (0, 0)
        parts = (max(low - 1, 0), high), (high, sampling.rounds)  # what is likely, and the rest
        ends = np.unique(np.concatenate([np.linspace(*part, _GROUPS).astype(int) for part in parts]))
        ends = np.array([sampling.rounds]) if sampling.client_rate == 1 else ends
        # a group counts as its largest number of rounds; its probability is that of the smaller tail, which is precise
        below, above = active.cdf(ends), active.sf(ends)
        self._weights = np.where(below < 0.5, np.diff(below, prepend=0.0), -np.diff(above, prepend=1.0))
        self._shifts = np.sqrt(ends) / noise

    def deltas(self, epsilons: Floats) -> Floats:
        """Delta at each epsilon of any sign, float (n,)."""
        none = float(self._weights[self._shifts == 0].sum())
        shifts, weights = self._shifts[self._shifts > 0], self._weights[self._shifts > 0]
        total = none * np.maximum(-np.expm1(np.minimum(epsilons, 0.0)), 0.0)
        for place, epsilon in enumerate(epsilons):
            middle = epsilon / shifts
            apart = np.exp(log_ndtr(shifts / 2 - middle)) - np.exp(epsilon + log_ndtr(-shifts / 2 - middle))
            total[place] += weights @ apart
        return np.clip(total, 0.0, 1.0)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon of at least 0."""

        def excess(epsilon: float) -> float:
            return float(self.deltas(np.array([epsilon]))[0]) - delta

        high = 1.0
        while excess(high) > 0:
            high *= 2
        if excess(0.0) <= 0:
            return 0.0
        found = float(brentq(excess, 0.0, high, xtol=1e-12 * high, rtol=1e-12))
        return found + 1e-11 * max(found, high)


class _Moments:
    """Log moments of a round by quadrature, to choose the tilt and the window; no bound depends on their error.

    Args:
        run: The run.
        added: Direction of the loss.
        delta: The largest losses are left out, whose probability is at most a share of it; 0 leaves out none.
        cut: The share.
    """

    def __init__(self, run: SampledGaussian, added: bool, delta: float = 0.0, cut: float = _CUT) -> None:
        self.added = added
        noise, rate = run._noise, run.sampling.provider_rate
        reach = 38.0
        z = np.arange(-reach, 1 / noise + reach, 0.05)
        self.output = run._furthest(delta, cut, added=added) if delta else None
        if self.output is not None:
            z = z[z * noise >= self.output] if added else z[z * noise <= self.output]
        loss = np.asarray(sampled_loss(z * noise, rate, noise))
        logs = -(z**2) / 2 + math.log(0.05 / math.sqrt(2 * math.pi))
        if run.kind == "fixed-size":
            positive = loss > 0
            forward = np.where(positive, logs + loss, -np.inf)
            rest = max(1e-300, 1 - float(np.exp(forward).sum() + np.exp(logs[positive]).sum()))
            self._losses = np.concatenate([loss[positive], -loss[positive], [0.0]])
            self._logs = np.concatenate([forward[positive], logs[positive], [math.log(rest)]])
        else:
            self._losses, self._logs = (-loss, logs) if added else (loss, logs + loss)
        self._rounds, self._rate = run.sampling.rounds, run.sampling.client_rate
        self._known: dict[tuple[float, int], Floats] = {}
        self._grid = self._around(0.0)

    def log_moment(self, order: float) -> float:
        """Log of the mean of exp(order * loss)."""
        return float(self._log_moments(np.array([order]))[0])

    def order_for(self, log_delta: float) -> tuple[float, float]:
        """Order of the smallest Chernoff bound of epsilon, and the bound."""
        bounds = (self._rounds * self._grid - log_delta) / _ORDERS
        best = int(np.argmin(bounds))
        return float(_ORDERS[best]), float(bounds[best])

    def tilt_at(self, epsilon: float) -> tuple[float, float]:
        """Order of the smallest Chernoff bound of delta at ``epsilon``, and the bound."""
        logs = self._rounds * self._grid - _ORDERS * epsilon
        best = int(np.argmin(logs))
        return float(_ORDERS[best]), math.exp(max(-600.0, min(0.0, float(logs[best]))))

    def width(self, tilt: float, epsilon: float, log_delta: float) -> float:
        """Width of a window in which what wraps around adds at most exp(log_delta) to delta at ``epsilon``."""
        orders = tilt + _ORDERS
        return float(np.min((self._rounds * self._around(tilt) - orders * epsilon - log_delta) / _ORDERS))

    def lowest(self, tilt: float) -> float:
        """Loss below which the tilted composed loss has a mass of at most 1e-6 (Chernoff)."""
        shifted = self._around(tilt, -1) - self.log_moment(tilt)
        return float(np.max(-(self._rounds * shifted + math.log(1e6)) / _ORDERS))

    def lowest_of_a_round(self, tilt: float) -> float:
        """Loss to which smaller losses of a round may move up: their tilted mass, once there, is at most 1e-7."""
        room = self.log_moment(tilt) - math.log(1e7 * self._rounds)
        return float(np.max((room - self._around(0.0, -1)) / (tilt + _ORDERS)))

    def _around(self, tilt: float, sign: int = 1) -> Floats:
        """Log moments at ``tilt`` plus or minus each order; computed once."""
        if (tilt, sign) not in self._known:
            self._known[tilt, sign] = self._log_moments(tilt + sign * _ORDERS)
        return self._known[tilt, sign]

    def _log_moments(self, orders: Floats) -> Floats:
        inside = logsumexp(self._logs + orders[:, None] * self._losses, axis=1)
        if self._rate == 1:
            return inside
        return np.logaddexp(math.log1p(-self._rate), math.log(self._rate) + inside)

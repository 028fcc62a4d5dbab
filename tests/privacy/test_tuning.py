"""Searches over hyper-parameters: the bound is never below the epsilon of the best of a drawn number of trials."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
import pytest
from dp_accounting import dp_event, rdp
from numpy.typing import NDArray
from scipy.stats import norm

from pfl_audit.cli.main import run
from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import privacy_spent
from pfl_audit.privacy.renyi import ORDERS
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.privacy.tuning import Search

Floats = NDArray[np.float64]
ONE = Sampling(1.0, 0.05, 200)


def slope_of(search: Search) -> Callable[[Floats], Floats]:
    """Derivative of the generating function of the number of trials, from its probabilities one by one."""
    if search.drawn == "poisson":
        return lambda x: search.trials * np.exp(search.trials * (x - 1))
    stop, eta = search._stop(), search.shape
    if eta == 0:
        return lambda x: (1 - stop) / (1 - (1 - stop) * x) / -np.log(stop)
    return lambda x: eta * (1 - stop) * (1 - (1 - stop) * x) ** (-eta - 1) / (stop**-eta - 1)


def epsilon_of_the_best(search: Search, rate: float, noise: float, delta: float) -> float:
    """Epsilon of the trial with the largest (or smallest) output of one sampled Gaussian round, by quadrature."""
    points = np.linspace(-12 * noise, 12 * noise + 1, 60_001)
    step, slope = points[1] - points[0], slope_of(search)
    without = norm.pdf(points, 0, noise), norm.cdf(points, 0, noise)
    shifted = norm.pdf(points, 1, noise), norm.cdf(points, 1, noise)
    there = [(1 - rate) * out + rate * moved for out, moved in zip(without, shifted, strict=True)]
    largest = 0.0
    for high in (True, False):
        best = [density * slope(below if high else 1 - below) for density, below in (there, without)]
        for one, other in (best, best[::-1]):
            low, top = 0.0, 100.0
            for _ in range(40):
                middle = (low + top) / 2
                above = float(np.maximum(one - np.exp(middle) * other, 0).sum() * step)
                low, top = (middle, top) if above > delta else (low, middle)
            largest = max(largest, low)
    return largest


def drawn_searches(count: int) -> list[tuple[Search, float, float, float]]:
    rng = np.random.default_rng(45)
    found = []
    for number in range(count):
        trials = float(np.exp(rng.uniform(np.log(1.5), np.log(200))))
        search = Search(trials, "poisson") if number % 3 == 0 else Search(trials, "negative-binomial", number % 3 - 1.0)
        if number % 5 == 1:
            search = Search(trials, "negative-binomial", float(rng.uniform(-0.9, 3)))
        found.append(
            (search, float(rng.uniform(0.05, 1)), float(rng.uniform(0.7, 5)), 10 ** float(rng.uniform(-8, -3)))
        )
    return found


@pytest.mark.slow
def test_the_bound_is_not_below_the_best_trial_in_40_settings() -> None:
    for search, rate, noise, delta in drawn_searches(40):
        bound = search.epsilon(Sampling(1.0, rate, 1), noise, delta)
        assert bound >= epsilon_of_the_best(search, rate, noise, delta) * (1 - 1e-6), (search, rate, noise, delta)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("search", "shape"),
    [
        (Search(10, "poisson"), inf),
        (Search(10, "negative-binomial", 1.0), 1.0),
        (Search(10, "negative-binomial", 0.0), 0.0),
        (Search(40, "negative-binomial", 0.5), 0.5),
    ],
)
def test_the_bound_is_that_of_dp_accounting(search: Search, shape: float) -> None:
    accountant = rdp.RdpAccountant(ORDERS)
    sampled = dp_event.PoissonSampledDpEvent(0.05, dp_event.GaussianDpEvent(1.5))
    accountant.compose(
        dp_event.RepeatAndSelectDpEvent(dp_event.SelfComposedDpEvent(sampled, 200), search.trials, shape)
    )
    # Its divergences of fractional orders are bounds, and ours are integrals.
    assert search.epsilon(ONE, 1.5, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)


def test_a_fixed_number_of_trials_is_composed() -> None:
    tenfold = privacy_spent(Sampling(1.0, 0.05, 2000), 1.5, 1e-5).epsilon
    assert Search(10, "fixed").epsilon(ONE, 1.5, 1e-5) == tenfold
    assert Search(1, "fixed").epsilon(ONE, 1.5, 1e-5) == privacy_spent(ONE, 1.5, 1e-5).epsilon


@pytest.mark.parametrize(
    "search",
    [
        Search(0.5, "poisson"),
        Search(2.5, "fixed"),
        Search(1e9, "poisson"),
        Search(float("nan"), "poisson"),
        Search(10, "negative-binomial", -1.0),
        Search(1, "negative-binomial", 1.0),
        Search(10, "negative-binomial", -0.99),
    ],
)
def test_searches_that_cannot_be_are_refused(search: Search) -> None:
    with pytest.raises(UsageError):
        search.epsilon(ONE, 1.5, 1e-5)


def test_the_command_accounts_a_search_and_refuses_half_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["account", "--sampling-rate", "0.05", "--steps", "200", "--delta", "1e-5", "--sigma", "1.5", "-q"]
    assert run([*asked, "--trials", "10", "--trials-drawn", "poisson"]) == 0
    said = capsys.readouterr().out
    assert "search    epsilon 5.495 at delta 1e-05 of a number of trials drawn beforehand (poisson, mean 10)" in said
    assert run([*asked, "--trials", "10"]) == 0
    assert "search    epsilon 8.231 at delta 1e-05 of 10 trials, all of them composed" in capsys.readouterr().out
    assert run([*asked, "--trials", "10", "--trials-drawn", "negative-binomial", "--trials-shape", "-0.99"]) == 4
    assert "no truncated negative binomial of shape -0.99 has a mean of 10" in capsys.readouterr().err
    assert run([*asked, "--trials", "10", "--accounting", "published"]) == 4
    assert "a search has no published figure" in capsys.readouterr().err
    assert run([*asked, "--trials-drawn", "poisson"]) == 4

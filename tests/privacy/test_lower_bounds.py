import math
from collections import Counter

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from pfl_audit.errors import UsageError
from pfl_audit.privacy.lower_bounds import (
    Floats,
    Guesses,
    contradicts,
    epsilon_lower_bound,
    mechanism_lower_bound,
    p_value,
)
from tests.oracles import canaries as oracle
from tests.oracles.gaussian import Gaussian

RUNS, FALSE_ALARMS = 500, 33
"""With a probability of 0.05 each, more than 33 of 500 false alarms have a probability of 4.5 %."""


def no_privacy_loss(fprs: Floats) -> Floats:
    return fprs


@pytest.mark.parametrize(("m", "r", "v"), [(12, 10, 9), (12, 12, 12), (30, 8, 5), (9, 9, 0), (50, 20, 17)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.7, 1e-3), (3.0, 1e-2)])
def test_the_p_value_is_that_of_the_theorem(m: int, r: int, v: int, epsilon: float, delta: float) -> None:
    assert p_value(Guesses(m, r, v), epsilon, delta) == pytest.approx(oracle.p_value(m, r, v, epsilon, delta), rel=1e-9)


@pytest.mark.parametrize("m", [5, 40, 1000])
def test_bound_of_a_perfect_attack(m: int) -> None:
    """All correct has the probability q^m, so q = 0.05^(1/m) is the least accuracy that is not rejected."""
    q = 0.05 ** (1 / m)
    assert epsilon_lower_bound(Guesses(m, m, m), 0.0) == pytest.approx(math.log(q / (1 - q)), rel=2e-4)


def test_a_perfect_attack_on_20_and_20_is_consistent_with_epsilon_8() -> None:
    perfect = Guesses(40, 40, 40)
    assert p_value(perfect, 8.0, 1e-5) == pytest.approx(0.9867, abs=1e-3)
    assert epsilon_lower_bound(perfect, 1e-5) < 8
    assert not contradicts(Gaussian(2.0).trade_off, perfect)


@pytest.mark.parametrize(("m", "r"), [(40, 40), (200, 20), (1000, 100)])
def test_a_run_without_effect_has_a_bound_of_0(m: int, r: int) -> None:
    runs = Counter(np.random.default_rng(m).binomial(r, 0.5, RUNS).tolist())
    alarms = {v: epsilon_lower_bound(Guesses(m, r, v), 1e-5) > 0 for v in runs}
    assert 0 < sum(runs[v] for v in runs if alarms[v]) <= FALSE_ALARMS
    assert sum(runs[v] for v in runs if contradicts(no_privacy_loss, Guesses(m, r, v))) <= FALSE_ALARMS


@pytest.mark.parametrize(("error", "contradicted"), [(0.01, False), (0.04, False), (0.06, True)])
def test_guesses_that_are_right_or_wrong_together(error: float, contradicted: bool) -> None:
    """With probability 0.05 all coins are revealed: 100 of 100 correct guesses are no rarer than that."""

    def trade_off(fprs: Floats) -> Floats:
        return np.minimum(fprs + 0.05, 1.0)

    assert contradicts(trade_off, Guesses(100, 100, 100), error) is contradicted
    assert p_value(Guesses(100, 100, 100), 0.0, 0.05) >= 0.05


def test_a_curve_with_one_direction_holds_for_both_kinds_of_guesses() -> None:
    """A canary that is in shows with probability 0.3, and one that is out never: positive guesses can be certain."""

    def trade_off(fprs: Floats) -> Floats:
        return 0.3 + 0.7 * fprs

    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(200):
        coins = rng.random(200) < 0.5
        shown = coins & (rng.random(200) < 0.3)
        guessed = np.argsort(~shown, kind="stable")[:100]
        alarms += contradicts(trade_off, Guesses(200, 100, int((shown == coins)[guessed].sum())))
    assert alarms <= 20
    assert contradicts(lambda fprs: 0.02 + 0.98 * fprs, Guesses(2000, 1000, 1000))


@pytest.mark.parametrize(
    ("m", "r", "v", "mu"), [(12, 10, 9, 0.5), (20, 20, 17, 1.0), (40, 8, 8, 2.0), (15, 15, 10, 0.1)]
)
def test_the_recursion_is_the_linear_program(m: int, r: int, v: int, mu: float) -> None:
    largest = oracle.largest_probability(m, r, v, mu)
    assert 0.001 < largest < 0.999
    assert not contradicts(Gaussian(mu).trade_off, Guesses(m, r, v), largest * 0.999)
    assert contradicts(Gaussian(mu).trade_off, Guesses(m, r, v), largest + 0.02 * largest)


def test_more_correct_guesses_raise_the_bounds() -> None:
    runs = [Guesses(400, 80, v) for v in range(0, 81, 8)]
    for bounds in (
        [epsilon_lower_bound(run, 1e-5) for run in runs],
        [mechanism_lower_bound(Gaussian, run, 1e-5) for run in runs],
    ):
        assert bounds[0] == 0 < bounds[-1]
        assert bounds == sorted(bounds)


def test_a_rejected_epsilon_rejects_all_below() -> None:
    """Otherwise the bisection could end above an epsilon that is not rejected."""
    for guesses in (Guesses(1000, 100, 90), Guesses(40, 40, 39), Guesses(1000, 1000, 600)):
        for delta in (0.0, 1e-5, 1e-3):
            found = np.array([p_value(guesses, epsilon, delta) for epsilon in np.linspace(0, 6, 100)])
            first = int(np.argmax(found > 0.05))
            assert (found[first:] > 0.05).all()


def test_the_bound_of_a_gaussian_is_valid_and_powerful() -> None:
    """The 1,000 guesses with the most evidence, of 10,000 canaries with independent noise."""
    mu, m, r = 2.0, 10_000, 1_000
    claimed = Gaussian(mu).epsilon(1e-5)
    rng = np.random.default_rng(1)
    for _ in range(10):
        coins = rng.random(m) < 0.5
        evidence = rng.normal(size=m) + mu * (coins - 0.5)
        chosen = np.argsort(-np.abs(evidence))[:r]
        guesses = Guesses(m, r, int(((evidence > 0) == coins)[chosen].sum()))
        assert 0.5 * claimed < mechanism_lower_bound(Gaussian, guesses, 1e-5) < claimed


@pytest.mark.parametrize(("mu", "delta"), [(0.3, 1e-5), (1.0, 1e-5), (3.0, 1e-2)])
def test_epsilon_of_a_gaussian(mu: float, delta: float) -> None:
    epsilon = Gaussian(mu).epsilon(delta)

    def advantage(x: float) -> float:
        return max(0.0, norm.pdf(x - mu) - math.exp(epsilon) * norm.pdf(x))

    assert quad(advantage, epsilon / mu + mu / 2, mu + 12)[0] == pytest.approx(delta, rel=1e-6)
    assert Gaussian(1e-9).epsilon(1e-5) == 0


@pytest.mark.parametrize("counts", [(10, 11, 5), (10, 5, 6), (0, 0, 0), (10, 5, -1)])
def test_impossible_counts_are_refused(counts: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="guesses of"):
        Guesses(*counts)

"""The accountant against exact single rounds, a direct convolution, and another library's bounds from both sides."""

import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr

from pfl_audit.privacy.pld import SampledGaussian
from pfl_audit.privacy.sampling import Sampling
from tests.oracles import loss_convolution, participation
from tests.privacy.tolerances import ABSOLUTE_TOLERANCE, RELATIVE_TOLERANCE

PUBLISHED = 0.771484375


def exact_delta(rate: float, noise: float, epsilon: float, *, added: bool) -> float:
    """Of one round, in 40 digits: the region of outputs in which the loss exceeds epsilon is a half-line."""
    with mp.workdps(40):
        q, s, e = mp.mpf(rate), mp.mpf(noise), mp.e ** mp.mpf(epsilon)
        odds = (1 / e - 1 + q) / q if added else (e - 1 + q) / q
        if odds <= 0:
            return 0.0
        at = s * mp.log(odds) + 1 / (2 * s)
        if added:
            base, shifted = mp.ncdf(at), mp.ncdf(at - 1 / s)
            return float(base - e * ((1 - q) * base + q * shifted))
        base, shifted = mp.ncdf(-at), mp.ncdf(1 / s - at)
        return float((1 - q) * base + q * shifted - e * base)


@pytest.mark.parametrize(
    ("rate", "noise", "delta"),
    [(1e-3, 10, 1e-7), (1e-4, 1, 1e-6), (0.2, PUBLISHED, 1e-5), (0.2, 0.3, 1e-12), (1e-6, 1, 1e-12), (0.9, 1, 1e-2),
     (1e-6, 0.5, 1e-9), (0.05, 20, 1e-9), (0.5, 0.06, 1e-5)],
)  # fmt: skip
def test_one_round_is_exact_within_the_tolerance(rate: float, noise: float, delta: float) -> None:
    require_exact(rate, noise, delta)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.floats(-3, -0.01), st.floats(-0.5, 1), st.floats(-12, -4))
def test_one_round_at_random_settings_is_exact_within_the_tolerance(
    log_rate: float, log_noise: float, log_delta: float
) -> None:
    rate, noise, delta = 10**log_rate, 10**log_noise, 10**log_delta
    assume(exact_delta(rate, noise, 0.0, added=False) > delta)  # else epsilon is 0
    require_exact(rate, noise, delta)


@pytest.mark.parametrize(
    ("rate", "noise", "rounds", "delta", "least"),
    [(1e-5, 0.7, 1000, 1e-12, 0.94), (1e-6, 0.5, 10_000, 1e-12, 0.96), (1e-6, 0.5, 10_000, 1e-10, 0.9),
     (1e-5, 0.7, 1000, 1e-9, 0.9), (1e-5, 0.7, 1, 1e-12, 0.7)],
)  # fmt: skip
def test_rare_draws_are_bounded_near_what_one_of_them_gives(
    rate: float, noise: float, rounds: int, delta: float, least: float
) -> None:
    """One large loss decides delta, which is little above that of a round times the rounds."""
    found = SampledGaussian(Sampling(1.0, rate, rounds), noise).epsilon(delta)
    assert least * delta < rounds * exact_delta(rate, noise, found, added=False) < delta


def require_exact(rate: float, noise: float, delta: float) -> None:
    """Epsilon of a round against 40 digits, and delta of that epsilon."""
    found = SampledGaussian(Sampling(1.0, rate, 1), noise).epsilon(delta)

    def excess(epsilon: float) -> float:
        return max(exact_delta(rate, noise, epsilon, added=added) for added in (False, True)) - delta

    assert excess(found) <= 1e-9 * delta  # sound
    lower = found - max(ABSOLUTE_TOLERANCE, RELATIVE_TOLERANCE * found)
    assert lower <= 0 or excess(lower) > 0  # tight
    back = SampledGaussian(Sampling(1.0, rate, 1), noise).delta(found)
    exact = excess(found) + delta
    assert exact * (1 - 1e-9) <= back <= excess(max(lower, 0.0)) + delta


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.floats(-3, 0), st.floats(-0.3, 1), st.integers(1, 300), st.floats(-9, -2))
@example(math.log10(0.2), math.log10(PUBLISHED), 10, -5)
def test_between_the_optimistic_and_the_pessimistic_estimate(
    log_rate: float, log_noise: float, rounds: int, log_delta: float
) -> None:
    rate, noise, delta = 10**log_rate, 10**log_noise, 10**log_delta
    found = SampledGaussian(Sampling(1.0, rate, rounds), noise).epsilon(delta)
    low, high = (
        privacy_loss_distribution.from_gaussian_mechanism(
            noise, sampling_prob=rate, value_discretization_interval=1e-3, pessimistic_estimate=dots,
            use_connect_dots=dots,
        ).self_compose(rounds).get_epsilon_for_delta(delta)
        for dots in (False, True)
    )  # fmt: skip
    assert low - 1e-9 <= found <= max(high, low + ABSOLUTE_TOLERANCE) * (1 + RELATIVE_TOLERANCE)


def test_where_prv_is_unsound() -> None:
    """At 3.287, PRV's figure on one machine, delta is at least 2.03e-12: two rare draws out of 10,000 rounds."""
    run = SampledGaussian(Sampling(1.0, 1e-5, 10_000), 0.5)
    assert 2.03e-12 < run.delta(3.287) < 2.05e-12
    assert 3.49 < run.epsilon(1e-12) < 3.51


@pytest.mark.parametrize(("rate", "noise", "rounds"), [(0.125, 1.5, 1), (0.125, 1.5, 3), (0.5, 4.0, 2)])
def test_groups_of_a_fixed_size(rate: float, noise: float, rounds: int) -> None:
    found = SampledGaussian(Sampling(1.0, rate, rounds), noise, "fixed-size").epsilon(1e-5)
    assert loss_convolution.fixed_size_delta(rate, noise, rounds, found) == pytest.approx(1e-5, rel=2e-3)


def test_replacing_costs_more_than_removing() -> None:
    run = Sampling(0.2, 0.125, 5)
    assert SampledGaussian(run, 1.145, "fixed-size").epsilon(1e-5) > SampledGaussian(run, 1.145).epsilon(1e-5)


@pytest.mark.parametrize(("client_rate", "rounds", "noise", "delta"), [(0.2, 10, PUBLISHED, 1e-5), (0.9, 3, 1.0, 1e-2)])
def test_known_participation_has_a_closed_form(client_rate: float, rounds: int, noise: float, delta: float) -> None:
    found = SampledGaussian(Sampling(client_rate, 1.0, rounds), noise).epsilon(delta)
    assert found == pytest.approx(participation.epsilon(delta, client_rate, rounds, noise), rel=1e-9)


@pytest.mark.parametrize("run", [Sampling(1.0, 0.01, 10), Sampling(0.01, 1.0, 10)])
def test_the_curve_of_very_little_noise_hides_who_is_not_drawn(run: Sampling) -> None:
    """The composed loss is above 709, where exp overflows; a provider that no round draws cannot be detected."""
    drawn, fprs = 1 - 0.99**10, np.array([0.0, 1e-4, 0.5])
    found = SampledGaussian(run, 0.05).trade_off(fprs)
    assert (found <= drawn + fprs + 1e-6).all()
    assert (found >= np.where(fprs, drawn + (1 - drawn) * fprs - 1e-6, 0.0)).all()


def test_known_participation_has_an_epsilon_at_a_delta_below_the_rarest_numbers_of_rounds() -> None:
    run = SampledGaussian(Sampling(0.5, 1.0, 1000), 1.0)
    assert participation.delta(run.epsilon(1e-20), 0.5, 1000, 1.0) == pytest.approx(1e-20, rel=1e-6)


def test_a_thousand_clients_rounds_stay_on_the_safe_side() -> None:
    run = SampledGaussian(Sampling(0.01, 1.0, 100_000), 20.0)
    deltas = [run.delta(epsilon) for epsilon in (0.0, 2.0, 8.0)]
    assert deltas == sorted(deltas, reverse=True)
    assert run.epsilon(1e-5) > SampledGaussian(Sampling(1.0, 1.0, 1000), 20.0).epsilon(1e-5)


def test_the_curve_of_a_gaussian_mechanism() -> None:
    fprs: NDArray[np.float64] = np.array([0.0, 1e-4, 0.05, 0.5, 1.0])
    run = SampledGaussian(Sampling(1.0, 1.0, 4), 2.0)
    with np.errstate(divide="ignore"):
        exact = ndtr(
            np.array([float(mp.sqrt(2) * mp.erfinv(2 * p - 1)) if 0 < p < 1 else p * 99 - 49 for p in fprs]) + 1
        )
    assert run.total_variation == pytest.approx(2 * ndtr(0.5) - 1)
    np.testing.assert_allclose(run.trade_off(fprs)[1:], exact[1:], atol=1e-5)
    assert (run.trade_off(fprs) >= exact - 1e-12).all()


def test_the_curve_of_the_published_mechanism_bounds_every_attack() -> None:
    run = SampledGaussian(Sampling(1.0, 0.2, 10), 0.7715)
    assert run.total_variation == pytest.approx(0.3521, abs=1e-4)  # at most 67.6 % balanced accuracy
    fprs = np.linspace(0, 1, 21)
    tprs = run.trade_off(fprs)
    assert (np.diff(tprs) >= 0).all()
    assert (np.diff(tprs, 2) <= 1e-9).all()  # concave
    assert (tprs - fprs).max() <= run.total_variation + 1e-9
    rng = np.random.default_rng(0)
    outputs = rng.normal(0, 0.7715, (2, 20_000, 10))
    outputs[1] += rng.random((20_000, 10)) < 0.2
    losses = np.log(0.8 + 0.2 * np.exp((2 * outputs - 1) / 2 / 0.7715**2)).sum(axis=2)
    for threshold in (-1.0, 0.0, 2.0):
        fpr, tpr = (losses > threshold).mean(axis=1)
        assert tpr <= run.trade_off(np.array([fpr]))[0] + 4 * math.sqrt(0.25 / 20_000)
        assert tpr >= run.trade_off(np.array([fpr]))[0] - 8 * math.sqrt(0.25 / 20_000)


def test_so_little_noise_that_sampling_hides_nothing() -> None:
    run = SampledGaussian(Sampling(1.0, 0.5, 3), 0.02)
    assert run.epsilon(1e-5) == SampledGaussian(Sampling(1.0, 1.0, 3), 0.02).epsilon(1e-5)
    assert run.total_variation == pytest.approx(1.0)

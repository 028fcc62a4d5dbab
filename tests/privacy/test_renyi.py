"""The Rényi accountant against exact sums, slow integrals and dp-accounting's."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.integrate import quad

from pfl_audit.privacy.pld import SampledGaussian
from pfl_audit.privacy.renyi import ORDERS, renyi_epsilon, round_moments, to_epsilon
from pfl_audit.privacy.sampling import Sampling


def moment(order: float, rate: float, noise: float, client_rate: float = 1.0) -> float:
    return float(round_moments(Sampling(client_rate, rate, 1), noise, np.array([order]))[0])


@pytest.mark.parametrize("noise", [0.1, 0.35, 0.77, 2.0, 30.0])
@pytest.mark.parametrize("rate", [1e-4, 0.03, 0.5, 0.99])
@pytest.mark.parametrize("order", [2, 7, 63])
def test_whole_orders_are_binomial_sums(order: int, rate: float, noise: float) -> None:
    stay, come = math.log1p(-rate), math.log(rate)
    terms = [
        math.log(math.comb(order, k)) + k * come + (order - k) * stay + (k * k - k) / 2 / noise**2
        for k in range(order + 1)
    ]
    assert moment(order, rate, noise) == pytest.approx(float(np.logaddexp.reduce(terms)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("noise", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("order", [1.1, 2.7, 10.9])
def test_broken_orders_are_integrals(order: float, noise: float) -> None:
    rate = 0.2

    def integrand(z: float) -> float:
        weight = math.exp(-(z**2) / 2 / noise**2) / noise / math.sqrt(2 * math.pi)
        return weight * (1 - rate + rate * math.exp((2 * z - 1) / 2 / noise**2)) ** order

    slow, _ = quad(integrand, -12 * noise, order + 12 * noise, limit=1000, epsabs=0, epsrel=1e-11, points=[0, order])
    assert moment(order, rate, noise) == pytest.approx(math.log(slow), rel=1e-7)


def test_without_sampling_it_is_the_gaussian() -> None:
    assert moment(3.0, 1.0, 2.0) == pytest.approx(3.0 * 2.0 / (2 * 2.0**2))


def test_next_to_no_noise_is_bounded_from_above() -> None:
    assert moment(5.0, 0.1, 0.019) == pytest.approx(5 * 4 / (2 * 0.019**2))
    assert moment(5.0, 0.1, 0.021) < 5 * 4 / (2 * 0.021**2)


def test_participation_is_mixed_in_the_moment_and_not_in_the_rate() -> None:
    inside = moment(6.0, 0.3, 1.2)
    assert moment(6.0, 0.3, 1.2, client_rate=0.25) == pytest.approx(math.log(0.75 + 0.25 * math.exp(inside)))
    assert moment(6.0, 0.3, 1.2, client_rate=0.25) > moment(6.0, 0.3 * 0.25, 1.2)


@pytest.mark.parametrize(
    ("rate", "noise", "rounds", "delta"),
    [(0.01, 1.0, 1000, 1e-5), (0.1, 2.0, 500, 1e-5), (0.002, 0.8, 10_000, 1e-6), (1.0, 10.0, 50, 1e-5)],
)
def test_dp_accounting_says_the_same(rate: float, noise: float, rounds: int, delta: float) -> None:
    other = RdpAccountant(list(ORDERS))
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    other.compose(event, rounds)
    # Its sums at broken orders are a little high: 4e-5 of the result in the second case, where ours equals mpmath's.
    assert renyi_epsilon(Sampling(1.0, rate, rounds), noise, delta) == pytest.approx(other.get_epsilon(delta), rel=1e-4)


@pytest.mark.parametrize(
    ("rate", "noise", "rounds", "epsilon"),
    [
        (0.025, 1.145, 5, 1.0057),
        (0.025, 0.637, 5, 3.9959),
        (0.025, 0.468, 5, 8.0039),
        (0.025, 1.145, 50, 1.336),
        (0.025, 0.637, 50, 5.86),
        (0.025, 0.468, 50, 12.95),
        (0.0225, 1.21, 30, 0.998),
        (0.0225, 0.695, 30, 4.000),
        (0.0225, 0.553, 30, 7.13),
    ],
)
def test_figures_of_the_competition_come_out(rate: float, noise: float, rounds: int, epsilon: float) -> None:
    digits = len(str(epsilon).split(".")[1])
    assert renyi_epsilon(Sampling(1.0, rate, rounds), noise, 1e-5) == pytest.approx(epsilon, abs=0.51 * 10**-digits)


def test_epsilon_is_never_below_zero() -> None:
    assert to_epsilon(np.array([2.0, 3.0]), np.zeros(2), 0.9) == 0.0


@pytest.mark.parametrize("noise", [0.7, 1.5, 6.0])
@pytest.mark.parametrize("order", [1.1, 3.0, 8.0])
def test_replacing_in_groups_of_a_fixed_size_is_an_integral_over_both_mirror_images(order: float, noise: float) -> None:
    rate, half = 0.125, noise / 2

    def excess(z: float) -> float:
        weight = -(z**2) / 2 / half**2 - math.log(half * math.sqrt(2 * math.pi))
        ratio = math.log(1 - rate + rate * math.exp((2 * z - 1) / 2 / half**2))
        powers = (order, 1), (1, -1), (1 - order, 1), (0, -1)
        return sum(sign * math.exp(weight + power * ratio) for power, sign in powers)

    slow, _ = quad(excess, 0.5, 0.5 + order + 12 * half, limit=1000, epsabs=0, epsrel=1e-11, points=[1.0, order])
    found = float(round_moments(Sampling(1.0, rate, 1), noise, np.array([order]), "fixed-size")[0])
    assert found == pytest.approx(math.log1p(slow), rel=1e-4)


@pytest.mark.parametrize("noise", [0.6, 1.145, 4.0])
def test_the_divergence_of_replacement_bounds_the_exact_epsilon_from_above(noise: float) -> None:
    sampling, orders = Sampling(0.2, 0.125, 5), np.array(ORDERS)
    divergences = sampling.rounds * round_moments(sampling, noise, orders, "fixed-size") / (orders - 1)
    exact = SampledGaussian(sampling, noise, "fixed-size").epsilon(1e-5)
    assert exact <= to_epsilon(orders, divergences, 1e-5) <= 1.6 * exact

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from pfl_audit.privacy.pld import SampledGaussian
from pfl_audit.privacy.reconstruction import largest_by_epsilon, largest_reconstruction
from pfl_audit.privacy.sampling import Sampling


@pytest.mark.parametrize("prior", [1e-6, 1e-3, 0.1, 0.5])
def test_gaussian_noise_without_sampling_is_exact(prior: float) -> None:
    """T rounds of noise s are one Gaussian of mean sqrt(T) / s, whose curve is known."""
    mechanism = SampledGaussian(Sampling(1.0, 1.0, 4), 4.0)
    exact = norm.cdf(math.sqrt(4) / 4.0 + norm.ppf(prior))
    found = largest_reconstruction(mechanism.trade_off, prior)
    assert exact - 1e-9 <= found <= 1.02 * exact + 1e-6


def test_an_attacker_who_knows_the_candidates_stays_below_it() -> None:
    """The best guess among ten values, each a coordinate that the update may add to, under sampling and noise."""
    rounds, rate, noise, values, runs = 6, 0.3, 1.0, 10, 40_000
    rng = np.random.default_rng(0)
    sums = rng.normal(scale=noise, size=(runs, rounds, values))
    sums[:, :, 0] += rng.random((runs, rounds)) < rate
    odds = np.log1p(rate * np.expm1((sums - 0.5) / noise**2)).sum(axis=1)  # likelihood ratio of each candidate
    right = float((odds.argmax(axis=1) == 0).mean())
    bound = largest_reconstruction(SampledGaussian(Sampling(1.0, rate, rounds), noise).trade_off, 1 / values)
    assert 0.2 < right < bound < 0.9


@given(st.floats(0, 12), st.floats(0, 0.1), st.floats(0, 1))
def test_epsilon_alone(epsilon: float, delta: float, prior: float) -> None:
    found = largest_by_epsilon(epsilon, delta, prior)
    assert found == pytest.approx(min(1.0, math.exp(epsilon) * prior + delta))


def test_the_mechanism_says_more_than_its_epsilon() -> None:
    """At epsilon 8 and a prior of one in a thousand, epsilon alone allows everything."""
    mechanism = SampledGaussian(Sampling(1.0, 0.2, 10), 0.7)
    epsilon = mechanism.epsilon(1e-5)
    assert largest_reconstruction(mechanism.trade_off, 1e-3) < 0.5 * largest_by_epsilon(epsilon, 1e-5, 1e-3)


@pytest.mark.parametrize("prior", [-0.1, 1.1, float("nan")])
def test_a_prior_is_a_probability(prior: float) -> None:
    with pytest.raises(ValueError, match="prior"):
        largest_by_epsilon(1.0, 0.0, prior)

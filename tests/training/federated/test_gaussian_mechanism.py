"""Clipping, noise and sampling have the properties that the accountant assumes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pfl_audit.training.federated.gaussian_mechanism import GaussianNoise, clip
from pfl_audit.training.federated.secure_rng import SecretStream, new_key, seed_for

numbers = st.floats(-(2.0**40), 2.0**40, width=32)
vectors = st.lists(numbers, min_size=1, max_size=40).map(lambda values: torch.tensor(values, dtype=torch.float32))
bounds = st.floats(1e-6, 1e6)


def norm(vector: torch.Tensor) -> float:
    return float(vector.double().norm())


@settings(deadline=None)
@given(vectors, bounds)
def test_no_update_is_longer_than_the_bound(vector: torch.Tensor, bound: float) -> None:
    clipped, verdict = clip(vector, bound)
    assert norm(clipped) <= bound
    assert verdict == ("zero" if not vector.any() else "kept" if norm(vector) <= bound else "clipped")


@settings(deadline=None)
@given(vectors, bounds)
def test_clipping_keeps_the_direction_and_what_is_short_enough(vector: torch.Tensor, bound: float) -> None:
    clipped, verdict = clip(vector, bound)
    if verdict == "clipped":
        wanted = vector.double() * (bound / norm(vector))
        torch.testing.assert_close(clipped.double(), wanted, rtol=1e-5, atol=1e-5 * bound)
    else:
        assert torch.equal(clipped, vector)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_dropped(bad: float) -> None:
    clipped, verdict = clip(torch.tensor([1.0, bad, 2.0]), 1.0)
    assert verdict == "dropped"
    assert not clipped.any()


@settings(deadline=None, max_examples=20)
@given(st.floats(0.1, 10), st.floats(0.01, 10), st.integers(1, 12), st.integers(0, 1000))
def test_shares_of_the_noise_add_up_to_the_stated_scale(
    sigma: float, bound: float, participants: int, seed: int
) -> None:
    noise = GaussianNoise(sigma, bound, SecretStream(new_key(seed)))
    shares = [noise.share(20_000, 3, client, participants) for client in range(participants)]
    for share in shares:
        assert float(share.std()) == pytest.approx(sigma * bound / math.sqrt(participants), rel=0.05)
    total = torch.stack(shares).sum(0).numpy() / (sigma * bound)
    assert stats.kstest(total, "norm").pvalue > 1e-6


def test_noise_is_drawn_once_a_coordinate() -> None:
    noise = GaussianNoise(1.0, 1.0, SecretStream(new_key(0)))
    size = (1 << 20) + 1001  # more than one piece
    share = noise.share(size, 1, 0, 1)
    assert share.dtype == torch.float32
    assert len(share) == size
    assert len(torch.unique(share)) > 0.9 * size  # no stretch is repeated (float32 has few neighbours near 0)
    for other in (noise.share(size, 2, 0, 1), noise.share(size, 1, 1, 1)):
        assert abs(float(np.corrcoef(share, other)[0, 1])) < 0.01
    assert torch.equal(share, noise.share(size, 1, 0, 1))
    assert stats.kstest(share.numpy(), "norm").pvalue > 1e-6


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.7])
def test_sampling_frequencies_are_the_rate(rate: float) -> None:
    stream = SecretStream(new_key(5))
    rounds, size = 3000, 12
    counts = np.zeros(size)
    sizes = []
    for number in range(rounds):
        drawn = stream.poisson_sample(rate, size, "providers", number, 0)
        counts[drawn] += 1
        sizes.append(len(drawn))
    for count in counts:
        assert stats.binomtest(int(count), rounds, rate).pvalue > 1e-6
    # Poisson sampling: the number that is drawn is binomial, so sometimes none is.
    assert np.var(sizes) == pytest.approx(size * rate * (1 - rate), rel=0.15)
    if rate == 0.05:
        assert min(sizes) == 0


def test_everybody_is_in_at_rate_one() -> None:
    assert SecretStream(new_key(1)).poisson_sample(1.0, 7, "x") == list(range(7))


def test_a_key_is_secret_unless_it_is_seeded() -> None:
    assert new_key(None) != new_key(None)
    assert new_key(4) == new_key(4) != new_key(5)
    first, second = (SecretStream(new_key(seed)).uniform(4, "noise", 1) for seed in (1, 2))
    assert not np.allclose(first, second)


def test_purposes_have_seeds_of_their_own() -> None:
    seeds = [
        seed_for(0, "order", 1, 2),
        seed_for(0, "order", 2, 1),
        seed_for(0, "dropout", 1, 2),
        seed_for(1, "order", 1, 2),
    ]
    assert len(set(seeds)) == 4

import numpy as np
import pytest
from scipy.stats import binomtest

from pfl_audit.metrics.intervals import (
    all_or_nothing,
    bootstrap_weights,
    estimate,
    exact_lower_bound,
    exact_share,
    group_mean,
    resampled_mean,
)


def test_weights_keep_the_size_of_each_class() -> None:
    labels = np.array([True] * 7 + [False] * 5)
    weights = bootstrap_weights(labels, np.random.default_rng(0), 300)
    assert weights.shape == (300, 12)
    assert (weights[:, labels].sum(axis=1) == 7).all()
    assert (weights[:, ~labels].sum(axis=1) == 5).all()
    assert np.allclose(weights.mean(axis=0), 1.0, atol=0.25)


def test_weights_depend_on_the_state_of_the_generator_alone_and_move_it_on() -> None:
    labels = np.arange(9) < 4
    generators = [np.random.default_rng(1), np.random.default_rng(1), np.random.default_rng(2)]
    first, again, other = (bootstrap_weights(labels, rng, 20) for rng in generators)
    assert (first == again).all()
    assert (first != other).any()
    assert (bootstrap_weights(labels, generators[0], 20) != first).any()
    drawn = np.random.default_rng(1)
    for chosen in (~labels, labels):
        size = int(chosen.sum())
        assert (first[:, chosen] == drawn.multinomial(size, np.full(size, 1 / size), size=20)).all()
    assert drawn.random() == generators[1].random()


def test_mean_over_items_of_resampled_groups() -> None:
    mean = group_mean(np.array([2.0, 0.0]), np.array([4.0, 1.0]))
    np.testing.assert_allclose(mean(np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 2.0]])), [0.4, 0.5, 0.0])
    assert np.isnan(mean(np.array([[0.0, 0.0]]))[0])


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Shares of 60 providers with 1 to 5 pages each, true share 0.3: 95 % intervals hold it 90 to 99 % of the time."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        counts = rng.integers(1, 6, size=60).astype(float)
        sums = rng.binomial(counts.astype(int), 0.3).astype(float)
        mean = group_mean(sums, counts)
        weights = bootstrap_weights(np.zeros(60, dtype=bool), rng, 400)
        found = estimate(float(mean(np.ones((1, 60)))[0]), mean(weights))
        covered += found.low <= 0.3 <= found.high
    assert 0.90 <= covered / 300 <= 0.99


def test_lower_bound_lies_below_the_interval_for_a_smaller_alpha() -> None:
    found = estimate(0.5, np.linspace(0, 1, 1001))
    assert (found.low, found.high) == pytest.approx((0.025, 0.975))
    assert found.lower_bound(0.005) == pytest.approx(0.005)


def test_resamples_without_a_value_are_left_out() -> None:
    found = estimate(0.5, np.array([np.nan, 0.4, 0.6]))
    assert 0.4 <= found.low <= found.high <= 0.6


@pytest.mark.parametrize("units", [1, 2, 12, 400])
@pytest.mark.parametrize("share", [0, 1])
def test_a_share_that_resampling_cannot_move_has_its_exact_interval(units: int, share: int) -> None:
    found = all_or_nothing(estimate(share, np.full(500, float(share))), units)
    exact = binomtest(share * units, units)
    between = exact.proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((between.low, between.high))
    alone = binomtest(share * units, units, alternative="greater").proportion_ci(0.99, method="exact")
    assert found.lower_bound(0.01) == pytest.approx(alone.low, rel=0.05)


def test_other_shares_keep_their_resamples() -> None:
    found = estimate(0.5, np.linspace(0, 1, 101))
    assert all_or_nothing(found, 7) is found


@pytest.mark.parametrize("share", [0, 1])
def test_the_interval_is_exact_whatever_is_drawn_for_differences(share: int) -> None:
    found = estimate(share, np.full(500, float(share)))
    drawn = [all_or_nothing(found, 12, np.random.default_rng(seed)) for seed in (0, 1)]
    assert {(one.low, one.high) for one in drawn} == {(all_or_nothing(found, 12).low, all_or_nothing(found, 12).high)}
    assert [len(one.samples) for one in drawn] == [500, 500]
    assert abs(drawn[0].samples - share).mean() == pytest.approx(1 / 13, rel=0.2)


@pytest.mark.parametrize("right", [0, 3, 12])
def test_a_share_of_items_has_its_exact_interval(right: int) -> None:
    found = exact_share(right, 12)
    between = binomtest(right, 12).proportion_ci(0.95, method="exact")
    assert (found.value, found.low, found.high) == (right / 12, between.low, between.high)
    assert exact_lower_bound(right, 12, 0.025) == pytest.approx(found.low, abs=1e-9)
    assert np.isnan([exact_share(0, 0).value, exact_lower_bound(0, 0, 0.05)]).all()


def test_a_mean_over_documents_resamples_them_whole() -> None:
    weights = bootstrap_weights(np.zeros(3, dtype=bool), np.random.default_rng(0))
    found = resampled_mean(np.array([1.0, 0.0, 4.0]), np.array([1.0, 1.0, 4.0]), weights)
    assert found.value == pytest.approx(5 / 6)
    assert found.low == 0.0  # the second one three times

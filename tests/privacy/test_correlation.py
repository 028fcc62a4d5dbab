"""The strategy matrix of correlated noise: sensitivity, error and epsilon against slow references."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import privacy_spent
from pfl_audit.privacy.calibration import calibrate_noise
from pfl_audit.privacy.correlation import Correlation, optimal_strategy
from pfl_audit.privacy.mechanism import Mechanism
from pfl_audit.privacy.rounding import rounding_loss
from pfl_audit.privacy.sampling import Sampling

ROUNDS = {"optimizer": "adamw", "strategy": "fedavg"}


def scheduled(
    rounds: int, separation: int, bands: int | None = None, sigma: float = 1.0, clients: int = 3, **given: Any
) -> Mechanism:
    privacy = {"sampling": "schedule", "separation": separation, "bands": bands, "clip": 1.0, "accounting": "valid"}
    return Mechanism.of("fl-dp", {"rounds": rounds, **ROUNDS}, privacy, clients, sigma, **given)


def matrix(mechanism: Mechanism) -> NDArray[np.float64]:
    """C by its definition, float64 (rounds, rounds)."""
    strategy, rounds = mechanism.noise.strategy, mechanism.rounds
    lags = np.subtract.outer(np.arange(rounds), np.arange(rounds))
    found = np.select([lags == lag for lag in range(len(strategy))], strategy, 0.0)
    return found / np.linalg.norm(found, axis=0)


def largest_move(strategy: NDArray[np.float64], separation: int) -> float:
    """Largest norm of C times the updates of one provider: over all rounds so far apart, and all of +1 and -1."""
    rounds = len(strategy)
    patterns = [
        taken
        for size in range(1, rounds + 1)
        for taken in combinations(range(rounds), size)
        if all(later - earlier >= separation for earlier, later in pairwise(taken))
    ]
    return max(
        float(np.linalg.norm(strategy[:, taken] @ np.array(signs)))
        for taken in patterns
        for signs in product((1, -1), repeat=len(taken))
    )


def exact_epsilon(move: float, delta: float) -> mp.mpf:
    """Epsilon of the Gaussian mechanism in 40 digits (Balle and Wang 2018, theorem 8)."""
    with mp.workdps(40):
        mu = mp.mpf(move)

        def excess(epsilon: mp.mpf) -> mp.mpf:
            return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu) - delta

        low, high = mp.mpf(0), mp.mpf(1)
        while excess(high) > 0:
            high *= 2
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return high


def test_epsilon_is_that_of_all_rounds_of_a_provider_at_once() -> None:
    """Never below the reference, in 40 settings."""
    rng, errors = np.random.default_rng(7), []
    for _ in range(40):
        separation = int(rng.integers(1, 6))
        rounds = int(rng.integers(1, min(14, 5 * separation) + 1))
        bands = int(rng.integers(1, separation + 1))
        sigma, delta = float(10 ** rng.uniform(-0.5, 1.0)), float(10 ** rng.uniform(-9, -2))
        mechanism = scheduled(rounds, separation, bands, sigma)
        exact = exact_epsilon(largest_move(matrix(mechanism), separation) / sigma, delta)
        errors.append(float((mp.mpf(mechanism.spent(delta).epsilon) - exact) / max(exact, mp.mpf("1e-9"))))
    assert min(errors) > -1e-13  # the largest move is rounded to double precision as well
    assert max(errors) < 1e-6


def test_bands_beyond_the_separation_move_more_and_are_refused() -> None:
    strategy = matrix(scheduled(8, 4, 4))
    assert largest_move(strategy, 4) == pytest.approx(np.sqrt(2))
    assert largest_move(strategy, 3) > 1.05 * np.sqrt(3)
    with pytest.raises(UsageError, match="noise of 4 bands needs a schedule with participations at least 4 rounds"):
        scheduled(8, 3, 4)


def test_whitening_matching_deviations_and_error_are_those_of_the_matrix() -> None:
    mechanism = scheduled(11, 4)
    found, strategy = mechanism.correlation, matrix(mechanism)
    values, inverse = np.random.default_rng(0).normal(size=(11, 5)), np.linalg.inv(strategy)
    np.testing.assert_allclose(found.whiten(values), strategy @ values, atol=1e-12)
    np.testing.assert_allclose(found.matched(values), strategy.T @ strategy @ values, atol=1e-12)
    np.testing.assert_allclose(found.deviations, np.linalg.norm(inverse, axis=1), atol=1e-12)
    sums = np.tril(np.ones((11, 11))) @ inverse
    assert found.error == pytest.approx(np.sqrt(np.square(sums).sum() / 11))
    assert found.error < Correlation((1.0,), 11).error == pytest.approx(np.sqrt(6))


def test_no_other_strategy_has_a_smaller_error_at_equal_sensitivity() -> None:
    """Toeplitz matrices, before their columns are scaled; a slow oracle of the search."""

    def cost(strategy: NDArray[np.float64]) -> float:
        lags = np.subtract.outer(np.arange(20), np.arange(20))
        toeplitz = np.select([lags == lag for lag in range(len(strategy))], strategy, 0.0)
        return float(np.linalg.norm(np.tril(np.ones((20, 20))) @ np.linalg.inv(toeplitz)) * np.linalg.norm(strategy))

    best, rng = np.array(optimal_strategy(20, 5)), np.random.default_rng(1)
    steps = rng.normal(size=(200, 4)) * rng.uniform(0.001, 0.2, (200, 1))
    others = [cost(best + np.append(0.0, step)) for step in steps]
    assert cost(best) < min(others)
    assert cost(best) < 0.999 * cost(np.append(1.0, np.cumprod(1 - 0.5 / np.arange(1, 5))))


def test_a_strategy_has_as_many_bands_as_rounds_at_most_and_is_planned_within_limits() -> None:
    assert scheduled(3, 5).noise.strategy == optimal_strategy(3, 3)
    assert optimal_strategy(10**6, 1) == (1.0,)
    for rounds, bands in ((20_000, 2), (600, 300)):
        with pytest.raises(UsageError, match="cannot be planned"):
            optimal_strategy(rounds, bands)


def test_one_band_is_independent_noise_of_all_rounds_of_a_provider_without_amplification() -> None:
    mechanism = scheduled(10, 5, 1, 0.9)
    assert mechanism.noise.strategy == (1.0,)
    assert mechanism.spent(1e-5).epsilon == privacy_spent(Sampling(1.0, 1.0, 2), 0.9, 1e-5).epsilon
    assert [mechanism.spent(1e-5, rounds=rounds).epsilon for rounds in (5, 6)] == [
        privacy_spent(Sampling(1.0, 1.0, rounds), 0.9, 1e-5).epsilon for rounds in (1, 2)
    ]
    found = calibrate_noise(5.0, 1e-5, mechanism.sampling, kind="schedule")
    assert 4.99 < scheduled(10, 5, 5, found).spent(1e-5).epsilon <= 5


def test_the_ledger_counts_the_rounds_of_a_provider_and_the_grid_of_every_sum() -> None:
    cost = scheduled(10, 5, sigma=0.9).cost(1e-5)
    assert cost.divergences([3.0]) == pytest.approx([2 * 3.0 / (2 * 0.9**2)])
    assert (cost.kind, cost.sampling.rounds) == ("schedule", 2)
    sigma = next(sigma for sigma in np.geomspace(1e-6, 1e-4, 1000) if 0 < rounding_loss(sigma, 1000) < 1)
    coarse = scheduled(10, 5, 1, sigma, 1000, secure=True)
    assert coarse.cost(1e-5).loss == coarse.loss_of_sum * 5


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"secure": True}, "the grid of a secure sum is accounted for noise of a round by itself"),
        ({"quorum": 2}, "noise that later rounds take back needs every client in each"),
        ({"pretraining": {"pretrain_rounds": 2}}, "schedules are accounted for one phase"),
    ],
)
def test_what_correlated_noise_does_not_go_with_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        scheduled(10, 5, **given)
    if "pretraining" not in given:
        assert scheduled(10, 5, 1, **given).noise.strategy == (1.0,)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("separation", None), ("separation", 3), ("client_rate", 0.5), ("provider_rate", 0.2), ("kind", "poisson"),
        ("strategy", [0.5, 1.0]), ("strategy", [1.0, 2.0]), ("strategy", []), ("strategy", [1.0] + [0.1] * 300),
    ],
)  # fmt: skip
def test_a_schedule_that_does_not_compose_is_none(place: str, value: object) -> None:
    written = scheduled(10, 5).model_dump(mode="json")
    (written["phases"][0]["parts"][2] if place == "strategy" else written["draw"])[place] = value
    with pytest.raises((UsageError, ValueError)):
        Mechanism.model_validate(written)


def test_independent_noise_takes_no_memory_of_rounds() -> None:
    assert optimal_strategy(10**12, 1) == (1.0,)
    assert Correlation((1.0,), 10**12).error == pytest.approx((10**12 / 2) ** 0.5)
    assert Correlation((1.0,), 40).error == pytest.approx(Correlation((1.0, 0.0), 40).error)

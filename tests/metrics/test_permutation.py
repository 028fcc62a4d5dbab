from itertools import combinations

import numpy as np
import pytest

from pfl_audit.metrics.permutation import permute


def test_against_every_permutation_there_is() -> None:
    """Two statistics on eight units: the larger one, standardised, over all 70 ways of calling four of them members."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 8))
    labels = np.array([True, False, True, False, False, True, True, False])

    def gaps(members: tuple[int, ...]) -> list[float]:
        inside = [unit in members for unit in range(8)]
        return [
            sum(row[at] for at in range(8) if inside[at]) / 4 - sum(row[at] for at in range(8) if not inside[at]) / 4
            for row in values
        ]

    every = np.array([gaps(members) for members in combinations(range(8), 4)])
    deviations = every.std(axis=0)
    observed = np.array(gaps(tuple(np.flatnonzero(labels)))) / deviations
    largest = (every / deviations).max(axis=1)
    exact = [(largest >= one - 1e-9).mean() for one in observed]
    found = permute(values, labels, rng, 20_000)
    assert found.p_values == pytest.approx(exact, abs=0.03)
    assert found.deviations == pytest.approx(deviations, rel=0.03)
    assert found.critical(0.1) == pytest.approx(np.quantile(largest, 0.9) * deviations, rel=0.05)


def test_what_is_told_apart_and_what_is_alike() -> None:
    labels = np.array([True] * 20 + [False] * 20)
    rng = np.random.default_rng(0)
    assert permute(labels[None].astype(float), labels, rng, 999).p_values == 1 / 1000
    assert permute(np.ones((1, 40)), labels, rng, 999).p_values == 1.0


def test_noise_falls_below_a_level_as_often_as_it_says() -> None:
    """Ten statistics, some alike and one constant: any of them is significant as often as the level says."""
    rng = np.random.default_rng(3)
    labels = np.array([True] * 15 + [False] * 25)
    small = []
    for _ in range(400):
        noise = rng.normal(size=(10, 40))
        noise[5:8] = noise[4] + 0.1 * noise[5:8]
        noise[9] = 1.0
        small.append(permute(noise, labels, rng, 400).p_values.min() <= 0.05)
    assert 0.02 <= np.mean(small) <= 0.08


def test_more_statistics_cost_power() -> None:
    rng = np.random.default_rng(4)
    labels = np.array([True] * 20 + [False] * 20)
    values = rng.normal(size=(30, 40))
    values[0] += 0.8 * labels
    alone = permute(values[:1], labels, np.random.default_rng(0)).p_values[0]
    assert permute(values, labels, np.random.default_rng(0)).p_values[0] > alone

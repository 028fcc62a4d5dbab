from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from pfl_audit.metrics.contrasts import area, item_gap, permuted
from pfl_audit.metrics.permutation import permute
from tests.arrangements import arrangements, exact


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


def statistics() -> np.ndarray:
    """Ten statistics of twelve units, some alike, one with ties, one with a heavy tail and one constant."""
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(10, 12))
    noise[5:7] = noise[4] + 0.1 * noise[5:7]
    noise[7] = np.round(noise[7])
    noise[8] = rng.standard_cauchy(12)
    noise[9] = 1.0
    return noise


def area_and_gap(labels: np.ndarray) -> float:
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 30, 12).astype(float)
    contrasts = [area(rng.normal(size=12)), item_gap(rng.poisson(counts / 3).astype(float), counts)]
    return permuted(contrasts, labels, rng).p_values.min()


@pytest.mark.parametrize(
    "smallest", [lambda labels: permute(statistics(), labels, np.random.default_rng(0)).p_values.min(), area_and_gap]
)
def test_no_level_is_exceeded_over_all_arrangements_of_the_labels(smallest: Callable[[np.ndarray], float]) -> None:
    """Each is as likely as any other where nothing leaks: the share that is significant is the error rate."""
    with exact():
        found = np.array([smallest(labels) for labels in arrangements()])
    assert found.min() == pytest.approx(2 / 925, rel=0.5)
    for alpha in (0.005, 0.01, 0.05, 0.1, 0.5):
        assert 0.2 * alpha <= np.mean(found <= alpha) <= alpha, alpha


def test_more_statistics_cost_power() -> None:
    rng = np.random.default_rng(4)
    labels = np.array([True] * 20 + [False] * 20)
    values = rng.normal(size=(30, 40))
    values[0] += 0.8 * labels
    alone = permute(values[:1], labels, np.random.default_rng(0)).p_values[0]
    assert permute(values, labels, np.random.default_rng(0)).p_values[0] > alone

from itertools import combinations

import numpy as np
import pytest

from pfl_audit.metrics.permutation import permutation_p_value


def test_against_every_permutation_there_is() -> None:
    """Two trials, each of which left somebody out; all 70 ways of calling four of eight members."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 8))
    values[0, 1] = values[1, 6] = np.nan
    labels = np.array([True, False, True, False, False, True, True, False])

    def gap(members: tuple[int, ...]) -> float:
        parts = []
        for trial in values:
            inside = [trial[i] for i in range(8) if i in members and np.isfinite(trial[i])]
            outside = [trial[i] for i in range(8) if i not in members and np.isfinite(trial[i])]
            parts.append(sum(inside) / len(inside) - sum(outside) / len(outside))
        return sum(parts) / len(parts)

    observed = gap(tuple(np.flatnonzero(labels)))
    exact = np.mean([gap(members) >= observed - 1e-12 for members in combinations(range(8), 4)])
    assert permutation_p_value(values, labels, rng, 20_000) == pytest.approx(exact, abs=0.01)


def test_what_is_told_apart_and_what_is_alike() -> None:
    labels = np.array([True] * 20 + [False] * 20)
    rng = np.random.default_rng(0)
    assert permutation_p_value(labels[None].astype(float), labels, rng, 999) == 1 / 1000
    assert permutation_p_value(np.ones((1, 40)), labels, rng, 999) == 1.0


def test_noise_falls_below_a_level_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    labels = np.array([True] * 15 + [False] * 25)
    small = [permutation_p_value(rng.normal(size=(1, 40)), labels, rng, 400) <= 0.05 for _ in range(400)]
    assert 0.02 <= np.mean(small) <= 0.08

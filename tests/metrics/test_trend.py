"""The permutation test of a trend, against full enumeration."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import spearmanr

from pfl_audit.metrics.trend import trend


@pytest.mark.parametrize("seed", range(4))
def test_exact_trend_against_full_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    doses, scores = rng.choice([1.0, 5, 20], size=6), np.round(rng.normal(size=6), 1)
    doses[:2] = 1, 20
    observed = spearmanr(doses, scores).statistic
    every = [spearmanr(doses[list(order)], scores).statistic for order in permutations(range(6))]
    found = trend(doses, scores, rng)
    assert found.correlation == pytest.approx(observed)
    assert found.p_value == pytest.approx(np.mean(np.array(every) >= observed - 1e-9))


def test_drawn_trend_is_near_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    doses, scores = np.array([1.0, 1, 1, 5, 5, 20, 20, 20]), rng.normal(size=8)
    exact = trend(doses, scores, rng)
    monkeypatch.setattr("pfl_audit.metrics.trend._EXACT", 0)
    assert trend(doses, scores, rng, 20_000).p_value == pytest.approx(exact.p_value, abs=0.02)


@pytest.mark.parametrize(("scores", "p_value"), [(np.arange(5.0), 1 / 120), (-np.arange(5.0), 1.0)])
def test_trend_is_one_sided(scores: np.ndarray, p_value: float) -> None:
    assert trend(np.arange(5.0), scores, np.random.default_rng(0)).p_value == pytest.approx(p_value)


@pytest.mark.parametrize("constant", [(np.ones(6), np.arange(6.0)), (np.arange(6.0), np.ones(6))])
def test_equal_doses_or_scores_have_no_trend(constant: tuple[np.ndarray, np.ndarray]) -> None:
    found = trend(*constant, np.random.default_rng(0))
    assert np.isnan(found.correlation)
    assert (found.p_value, found.units) == (1.0, 6)

from statistics import NormalDist

import numpy as np
import pytest

from pfl_audit.metrics.power import effect_found, power_at, smallest_effect


@pytest.mark.parametrize(("deviation", "alpha"), [(0.04, 0.05), (0.1, 0.005)])
def test_an_effect_of_this_size_is_found_in_four_of_five_draws(deviation: float, alpha: float) -> None:
    critical = NormalDist().inv_cdf(1 - alpha) * deviation
    effect = smallest_effect(critical, deviation)
    found = np.random.default_rng(0).normal(effect, deviation, 100_000) > critical
    assert found.mean() == pytest.approx(0.8, abs=0.005)
    null = np.random.default_rng(1).normal(0.0, deviation, 100_000) > critical
    assert null.mean() == pytest.approx(alpha, rel=0.1)


@pytest.mark.parametrize("control", [None, 0.05, 0.2])
@pytest.mark.parametrize(("effect", "deviation"), [(0.0, 0.05), (0.1, 0.05), (0.3, 0.1)])
def test_power_against_draws(effect: float, deviation: float, control: float | None) -> None:
    rng = np.random.default_rng(0)
    statistic = rng.normal(effect, deviation, 200_000)
    found = statistic > 0.12
    if control is not None:
        found &= statistic - rng.normal(0.0, control, 200_000) > 1.6449 * np.hypot(deviation, control)
    assert power_at(effect, 0.12, deviation, control) == pytest.approx(found.mean(), abs=0.004)


def test_a_statistic_that_does_not_vary() -> None:
    assert (power_at(0.1, 0.2, 0.0), power_at(0.3, 0.2, 0.0)) == (0.0, 1.0)
    assert power_at(0.3, 0.2, 0.0, control=0.1) == pytest.approx(0.912, abs=0.001)


def test_the_smallest_effect_by_bisection() -> None:
    found = effect_found(lambda effect: power_at(effect, 0.1, 0.04), 0.5)
    assert found == pytest.approx(smallest_effect(0.1, 0.04), abs=1e-6)
    assert np.isnan(effect_found(lambda effect: 0.7, 0.5))

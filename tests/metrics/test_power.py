import numpy as np
import pytest

from pfl_audit.metrics.power import critical_of_interval, smallest_effect


@pytest.mark.parametrize(("deviation", "alpha"), [(0.04, 0.05), (0.1, 0.005)])
def test_an_effect_of_this_size_is_found_in_four_of_five_draws(deviation: float, alpha: float) -> None:
    critical = critical_of_interval(deviation, alpha)
    effect = smallest_effect(critical, deviation)
    found = np.random.default_rng(0).normal(effect, deviation, 100_000) > critical
    assert found.mean() == pytest.approx(0.8, abs=0.005)
    null = np.random.default_rng(1).normal(0.0, deviation, 100_000) > critical
    assert null.mean() == pytest.approx(alpha, rel=0.1)

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from pfl_audit.metrics import sliced_wasserstein as module
from pfl_audit.metrics.sliced_wasserstein import class_distance, principal_components, sliced_wasserstein


@pytest.mark.parametrize("elements", [1, 1 << 22])
def test_against_scipy_for_each_direction(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ELEMENTS", elements)
    rng = np.random.default_rng(0)
    points, directions = rng.normal(size=(30, 4)).round(1), rng.normal(size=(5, 4))
    labels = rng.permuted(np.tile(np.arange(30) < 11, (6, 1)), axis=1)
    expected = [
        np.mean([wasserstein_distance(points[row] @ one, points[~row] @ one) for one in directions]) for row in labels
    ]
    assert sliced_wasserstein(points, labels, directions) == pytest.approx(expected)


def test_classes_apart_and_alike() -> None:
    rng = np.random.default_rng(1)
    labels = np.arange(60) < 30
    noise = rng.normal(size=(60, 5))
    apart = class_distance(noise + 2 * labels[:, None], labels, rng, 99)
    assert apart.p_value == 1 / 100
    assert apart.value > 2 * apart.chance
    p_values = [class_distance(rng.normal(size=(20, 3)), labels[20:40], rng, 99).p_value for _ in range(100)]
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.1)
    assert class_distance(np.ones((60, 5)), labels, rng, 9).p_value == 1


def test_principal_components_keep_the_distances() -> None:
    points = np.random.default_rng(2).normal(size=(12, 3))
    found = principal_components(points, 5)
    assert found.shape == (12, 3)
    distances = [np.linalg.norm(rows[:, None] - rows, axis=2) for rows in (points, found)]
    assert distances[0] == pytest.approx(distances[1])

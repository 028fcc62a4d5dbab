"""Noise multipliers of the papers and the competition, to the last digit."""

import math

import pytest

from pfl_audit.errors import UsageError
from pfl_audit.privacy import calibration
from pfl_audit.privacy.accounting import privacy_spent
from pfl_audit.privacy.calibration import AccountantChoice, calibrate_noise
from pfl_audit.privacy.sampling import Sampling

TARGETS = (1.0, 4.0, 8.0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("rounds", "rate", "accountant", "expected"),
    [
        (100, 415 / 4149, "prv", (3.984375, 1.38916015625, 0.9368896484375)),
        (100, 415 / 4149, "renyi", (4.296875, 1.48193359375, 0.99365234375)),
        (10, 1000 / 4145, "prv", (3.3203125, 1.25244140625, 0.83251953125)),
        (10, 1000 / 4142, "prv", (3.3203125, 1.25244140625, 0.83251953125)),
        (10, 1000 / 4148, "prv", (3.3203125, 1.25244140625, 0.83251953125)),
        (10, 1000 / 4149, "prv", (3.3203125, 1.25244140625, 0.8319091796875)),
        (10, 0.2, "prv", (2.8515625, 1.136474609375, 0.771484375)),
        (10, 0.2, "renyi", (3.10546875, 1.23291015625, 0.83251953125)),
        (5, 0.2 * 50 / 400, "prv", (0.9375, 0.574951171875, 0.423583984375)),
        (10, 0.2 * 50 / 400, "prv", (0.9814453125, 0.6005859375, 0.44952392578125)),
    ],
)
def test_published_multipliers_come_out(
    rounds: int, rate: float, accountant: AccountantChoice, expected: tuple[float, ...]
) -> None:
    found = [calibrate_noise(target, 1e-5, Sampling(1.0, rate, rounds), accountant=accountant) for target in TARGETS]
    assert found == list(expected)


def test_the_federated_multiplier_needs_published_accounting() -> None:
    run = Sampling(client_rate=0.2, provider_rate=1.0, rounds=10)
    assert calibrate_noise(8.0, 1e-5, run, "published") == 0.771484375
    honest = calibrate_noise(8.0, 1e-5, run)
    assert honest > 1.2
    assert 7.99 < privacy_spent(run, honest, 1e-5).epsilon <= 8.0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", [0.3, 2.0, 12.0])
def test_results_lie_on_the_ladder(target: float) -> None:
    run = Sampling(0.5, 0.3, 3)
    noise = calibrate_noise(target, 1e-5, run)
    steps = noise / 20 * 2**40
    assert steps == int(steps)
    assert target - 0.01 <= privacy_spent(run, noise, 1e-5).epsilon <= target


@pytest.mark.slow
@pytest.mark.parametrize("target", [1e-4, 0.1, 60.0])
def test_targets_where_prv_is_loose_or_fails_are_met_within_a_thousandth(target: float) -> None:
    run = Sampling(1.0, 0.2, 20)
    noise = calibrate_noise(target, 1e-5, run)
    assert 0.999 * target <= privacy_spent(run, noise, 1e-5).epsilon <= target


def test_groups_of_a_fixed_size_are_calibrated_by_renyi_too() -> None:
    run = Sampling(0.2, 50 / 400, 5)
    noise = calibrate_noise(8.0, 1e-150, run, accountant="renyi", kind="fixed-size")
    assert 7.99 <= privacy_spent(run, noise, 1e-150, kind="fixed-size").renyi <= 8.0


@pytest.mark.slow
def test_groups_of_a_fixed_size_need_more_noise() -> None:
    run = Sampling(0.2, 0.125, 5)
    noise = calibrate_noise(8.0, 1e-5, run, kind="fixed-size")
    assert noise > 2 * calibrate_noise(8.0, 1e-5, run) * 0.9
    assert 7.99 <= privacy_spent(run, noise, 1e-5, kind="fixed-size").epsilon <= 8.0


def test_a_jump_of_epsilon_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no noise gives an epsilon within the tolerance the search stops at the smallest that is low enough."""
    monkeypatch.setattr(calibration, "renyi_epsilon", lambda run, noise, delta, kind: 9.0 if noise < 1.3 else 1.0)
    assert calibrate_noise(8.0, 1e-5, Sampling(1.0, 0.2, 10), accountant="renyi") == pytest.approx(1.3, rel=1e-6)


def test_more_noise_than_there_is() -> None:
    with pytest.raises(UsageError, match=r"epsilon 1e-05 cannot be reached.*Raise epsilon"):
        calibrate_noise(1e-5, 1e-12, Sampling(1.0, 1.0, 10_000_000))


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, math.inf])
def test_targets_that_are_none(target: float) -> None:
    with pytest.raises(UsageError, match="target epsilon"):
        calibrate_noise(target, 1e-5, Sampling(1.0, 0.2, 10))

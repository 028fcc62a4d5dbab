"""The PRV accountant against exact mixtures over participation, and where it has to give up."""

from math import comb

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from pfl_audit.privacy.prv import EPSILON_ERROR, FINE_EPSILON_ERROR, PrvError, RoundLoss, prv_epsilon
from pfl_audit.privacy.sampling import Sampling
from tests.oracles import participation


@pytest.mark.parametrize(
    ("client_rate", "rounds", "noise", "delta", "error"),
    [
        (0.2, 10, 0.771484375, 1e-5, FINE_EPSILON_ERROR),
        (0.2, 10, 5.0, 1e-6, FINE_EPSILON_ERROR),
        (0.05, 100, 1.0, 1e-5, EPSILON_ERROR),  # too many cells for the finer one
        (0.9, 3, 1.0, 1e-2, FINE_EPSILON_ERROR),
        (0.01, 1, 0.6, 1e-7, FINE_EPSILON_ERROR),
        (0.3, 20, 1.5, 1e-12, FINE_EPSILON_ERROR),
    ],
)
def test_known_participation_is_composed_exactly(
    client_rate: float, rounds: int, noise: float, delta: float, error: float
) -> None:
    exact = participation.epsilon(delta, client_rate, rounds, noise)
    found = prv_epsilon(Sampling(client_rate, 1.0, rounds), noise, delta)
    assert exact <= found <= exact + 2.1 * error


@pytest.mark.parametrize(("client_rate", "provider_rate", "rounds", "noise"), [(0.3, 0.25, 6, 0.8), (0.5, 0.6, 4, 1.5)])
def test_sampled_providers_in_sampled_clients(
    client_rate: float, provider_rate: float, rounds: int, noise: float
) -> None:
    """The oracle composes only the active rounds, and takes the mean of delta over their number."""
    one = pld.from_gaussian_mechanism(
        noise, sampling_prob=provider_rate, value_discretization_interval=1e-3, use_connect_dots=True
    )
    composed = [one.self_compose(active) for active in range(1, rounds + 1)]
    weights = [comb(rounds, k) * client_rate**k * (1 - client_rate) ** (rounds - k) for k in range(1, rounds + 1)]
    found = prv_epsilon(Sampling(client_rate, provider_rate, rounds), noise, 1e-5)

    def delta(epsilon: float) -> float:
        return sum(w * c.get_delta_for_epsilon(epsilon) for w, c in zip(weights, composed, strict=True))

    assert delta(found) <= 1e-5 < delta(found - 0.02)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("client_rate", [1.0, 0.4])
def test_a_round_is_what_sampling_gives(client_rate: float, added: bool) -> None:
    rate, noise, rng = 0.3, 0.9, np.random.default_rng(0)
    size = 200_000
    active = rng.random(size) < client_rate
    drawn = 0.0 if added else (rng.random(size) < rate)
    point = rng.normal(0, noise, size) + drawn
    loss = np.log(1 - rate + rate * np.exp((2 * point - 1) / 2 / noise**2)) * active * (-1 if added else 1)
    at = np.array([-0.3, -0.1, -1e-9, 1e-9, 0.2, 1.0])
    seen = (loss[:, None] <= at).mean(axis=0)
    np.testing.assert_allclose(RoundLoss(Sampling(client_rate, rate, 1), noise, added=added).cdf(at), seen, atol=0.005)


def test_tails_keep_their_digits() -> None:
    one = RoundLoss(Sampling(0.5, 1.0, 1), 1.0, added=False)
    far = float(one.probability(10.0, 11.0))  # N(1/2, 1) above 10: some 1e-21, lost in 1 - cdf
    assert 1e-22 < far < 1e-20
    assert float(one.cdf(11.0) - one.cdf(10.0)) == 0.0


def test_it_gives_up_with_a_reason_where_its_mean_is_off() -> None:
    with pytest.raises(PrvError, match="mean differs"):
        prv_epsilon(Sampling(1.0, 0.2, 500), 0.7, 1e-5)


def test_it_gives_up_before_it_eats_the_memory() -> None:
    with pytest.raises(PrvError, match="cells"):
        prv_epsilon(Sampling(1.0, 0.5, 100_000), 0.3, 1e-5)


def test_it_gives_up_where_delta_drowns() -> None:
    with pytest.raises(PrvError):
        prv_epsilon(Sampling(1.0, 0.2, 10), 1.0, 1e-17)


def test_its_warnings_stay_inside(recwarn: pytest.WarningsRecorder) -> None:
    prv_epsilon(Sampling(0.2, 0.5, 10), 1.0, 1e-5)
    assert not recwarn.list

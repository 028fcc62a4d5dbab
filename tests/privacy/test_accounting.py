import math

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pfl_audit.errors import UsageError
from pfl_audit.privacy.accounting import privacy_spent, prv_comparison
from pfl_audit.privacy.sampling import Sampling
from tests.privacy.tolerances import RELATIVE_TOLERANCE

PUBLISHED = 0.771484375
"""Noise multiplier of fl-dp at epsilon 8 (privacy-aware-docvqa, table 12)."""


def test_the_published_claim_is_8_and_worth_14_46() -> None:
    run = Sampling(client_rate=0.2, provider_rate=1.0, rounds=10)
    claimed = privacy_spent(run, PUBLISHED, 1e-5, "published")
    valid = privacy_spent(run, PUBLISHED, 1e-5)
    assert 7.99 < claimed.epsilon <= 8
    assert round(valid.epsilon, 2) == 14.46
    assert round(valid.renyi, 2) == 16.28
    assert (valid.accountant, claimed.accountant, claimed.accounting) == ("pld", "prv", "published")


def test_independent_providers_earn_the_whole_rate() -> None:
    alone, clients = Sampling(1.0, 0.2, 10), Sampling(0.2, 1.0, 10)
    published = privacy_spent(clients, PUBLISHED, 1e-5, "published").epsilon
    assert published == privacy_spent(alone, PUBLISHED, 1e-5, "published").epsilon
    assert privacy_spent(alone, PUBLISHED, 1e-5).epsilon == pytest.approx(published, rel=RELATIVE_TOLERANCE)


@pytest.mark.parametrize(
    ("rate", "noise", "rounds", "delta", "prv", "renyi"),
    [
        (0.01, 1.0, 1000, 1e-5, 1.8384, 2.1014),
        (0.1, 2.0, 500, 1e-5, 5.5658, 6.0343),
        (0.002, 0.8, 10_000, 1e-6, 1.9454, 2.4632),
        (1.0, 10.0, 50, 1e-5, 2.9534, 3.189),
    ],
)
def test_other_libraries_say_the_same(
    rate: float, noise: float, rounds: int, delta: float, prv: float, renyi: float
) -> None:
    """opacus' figures: its PRV's upper bound and its RDP."""
    run = Sampling(1.0, rate, rounds)
    found = privacy_spent(run, noise, delta)
    assert prv_comparison(run, noise, delta)[0] == pytest.approx(prv, abs=4e-4)
    assert found.renyi == pytest.approx(renyi, abs=4e-4)
    assert prv - 0.025 < found.epsilon < prv  # without PRV's slack


def test_where_prv_fails_the_valid_bound_is_there() -> None:
    run = Sampling(1.0, 0.2, 500)
    found = privacy_spent(run, 0.7, 1e-5)
    assert (found.accountant, prv_comparison(run, 0.7, 1e-5)[0]) == ("pld", None)
    assert found.epsilon == pytest.approx(77.72, abs=0.01)
    assert found.renyi == pytest.approx(83.03, abs=0.01)
    assert "mean differs" in str(prv_comparison(run, 0.7, 1e-5)[1])


def test_what_no_grid_of_losses_represents_is_bounded_by_renyi() -> None:
    found = privacy_spent(Sampling(1.0, 0.5, 100_000), 0.3, 1e-5)
    assert (found.accountant, found.epsilon) == ("renyi", found.renyi)
    assert found.epsilon < 1e6


def test_groups_of_a_fixed_size_cost_more_than_their_published_figure() -> None:
    """FL-GROUP-DP: 50 of 400 providers of 2 of 10 clients, with the orders of the kit."""
    run = Sampling(0.2, 50 / 400, 5)
    for noise, published in ((1.145, 1.0057), (0.637, 3.9959), (0.468, 8.0039)):
        as_published = privacy_spent(run, noise, 1e-5, "published", "fixed-size")
        assert (round(as_published.epsilon, 4), as_published.accountant) == (published, "renyi")
        valid = privacy_spent(run, noise, 1e-5, kind="fixed-size")
        assert valid.accountant == "pld"
        assert 4 * published < valid.epsilon < valid.renyi


@pytest.mark.parametrize("delta", [1e-60, 1e-100, 1e-128, 1e-129, 1e-200, 1e-300])
def test_groups_of_a_fixed_size_at_a_delta_that_no_grid_represents(delta: float) -> None:
    """Without sampling of providers epsilon is exact at half the noise; sampling them costs less, adding one too."""
    found = privacy_spent(Sampling(1.0, 0.2, 10), 0.77, delta, kind="fixed-size")
    exact = privacy_spent(Sampling(1.0, 1.0, 10), 0.77, delta, kind="fixed-size").epsilon
    assert privacy_spent(Sampling(1.0, 0.2, 10), 0.77, delta).epsilon < found.epsilon < exact
    assert found.epsilon <= found.renyi < found.epsilon * 1.05


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.floats(0.001, 1.0), st.floats(0.5, 8.0), st.integers(1, 20), st.floats(-8, -2).map(lambda power: 10.0**power))
@example(0.2, PUBLISHED, 10, 1e-5)
@example(1.0, 0.5, 20, 1e-8)
def test_epsilon_never_falls_below_a_third_opinion(rate: float, noise: float, rounds: int, delta: float) -> None:
    """PLD from below: discretised optimistically, its epsilon is a lower bound, over adding and removing."""
    distribution = dp_accounting.pld.privacy_loss_distribution.from_gaussian_mechanism(
        noise,
        sampling_prob=rate,
        value_discretization_interval=1e-3,
        pessimistic_estimate=False,
        use_connect_dots=False,
    )
    lower = distribution.self_compose(rounds).get_epsilon_for_delta(delta)
    found = privacy_spent(Sampling(1.0, rate, rounds), noise, delta)
    assert found.renyi is not None
    assert lower - 1e-9 <= found.epsilon <= found.renyi


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.floats(0.05, 0.95), st.floats(0.1, 1.0), st.floats(0.8, 4.0), st.integers(1, 10))
def test_valid_accounting_never_promises_more_than_published(
    client_rate: float, provider_rate: float, noise: float, rounds: int
) -> None:
    run = Sampling(client_rate, provider_rate, rounds)
    slack = 0.02  # of the upper bounds
    assert privacy_spent(run, noise, 1e-5).epsilon >= privacy_spent(run, noise, 1e-5, "published").epsilon - slack


def test_more_rounds_less_noise_and_more_sampling_cost_more() -> None:
    base = privacy_spent(Sampling(0.5, 0.5, 3), 1.0, 1e-5).epsilon
    assert privacy_spent(Sampling(0.5, 0.5, 4), 1.0, 1e-5).epsilon > base
    assert privacy_spent(Sampling(0.5, 0.5, 3), 0.9, 1e-5).epsilon > base
    assert privacy_spent(Sampling(0.6, 0.5, 3), 1.0, 1e-5).epsilon > base
    assert privacy_spent(Sampling(0.5, 0.6, 3), 1.0, 1e-5).epsilon > base
    assert privacy_spent(Sampling(0.5, 0.5, 3), 1.0, 1e-6).epsilon > base


def test_dp_accountings_own_interface_agrees_on_the_published_setting() -> None:
    accountant = PLDAccountant()
    event = dp_accounting.PoissonSampledDpEvent(0.2, dp_accounting.GaussianDpEvent(PUBLISHED))
    accountant.compose(event, 10)
    found = privacy_spent(Sampling(1.0, 0.2, 10), PUBLISHED, 1e-5).epsilon
    assert found == pytest.approx(accountant.get_epsilon(1e-5), abs=0.02)


@pytest.mark.parametrize(
    ("run", "noise", "delta", "message"),
    [
        (Sampling(0.0, 1.0, 1), 1.0, 1e-5, "client sampling rate"),
        (Sampling(1.0, 1.5, 1), 1.0, 1e-5, "provider sampling rate"),
        (Sampling(1.0, math.nan, 1), 1.0, 1e-5, "provider sampling rate"),
        (Sampling(1.0, 1.0, 0), 1.0, 1e-5, "0 rounds"),
        (Sampling(1.0, 1.0, 1), 0.0, 1e-5, "noise multiplier is 0"),
        (Sampling(1.0, 1.0, 1), math.inf, 1e-5, "noise multiplier"),
        (Sampling(1.0, 1.0, 1), 1.0, 0.0, "delta is 0"),
        (Sampling(1.0, 0.5, 1), 1.0, 1e-320, "delta is 9.99989e-321"),
        (Sampling(1.0, 1.0, 1), 1.0, 1.0, "delta is 1"),
    ],
)
def test_what_cannot_be_is_refused(run: Sampling, noise: float, delta: float, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        privacy_spent(run, noise, delta)

"""The published claim is beaten, and the valid one is not: the mechanism itself, run many times.

One client takes part in a round with probability 0.2 and brings both its providers. The adversary is the
server, which draws the clients and sees every round's noisy sum. The provider in question always pulls the
same way, further than the clip; so does the other one, in another direction. What is measured is delta at a
given epsilon, as the mean of (1 - exp(epsilon - loss))+ over runs with the provider.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from pfl_audit.privacy.accounting import privacy_spent
from pfl_audit.privacy.sampling import Sampling
from tests.oracles import participation

Floats = NDArray[np.float64]

RUN = Sampling(client_rate=0.2, provider_rate=1.0, rounds=10)
NOISE, CLIP, DELTA = 0.771484375, 0.5, 1e-5
UPDATES = np.array([[4.0, 0.0], [0.0, 3.0]])
"""Of the provider in question and of the other one, before clipping."""
CONFIDENT = 3.9
"""Standard errors: one run in ten thousand lies outside on either side."""


def rounds_of(runs: int, rate: float, rng: np.random.Generator) -> tuple[NDArray[np.bool_], Floats]:
    """Participation bool (runs, rounds), and the server's noisy sums float (runs, rounds, 2)."""
    clipped = UPDATES / np.maximum(1, np.linalg.norm(UPDATES, axis=1, keepdims=True) / CLIP)
    there = rng.random((runs, RUN.rounds)) < rate
    sums = there[..., None] * clipped.sum(axis=0)
    return there, sums + rng.normal(0, NOISE * CLIP, sums.shape)


def log_densities(there: NDArray[np.bool_], sums: Floats) -> tuple[Floats, Floats]:
    """Of each sum with and without the provider, given who took part, float (runs, rounds); unnormalised."""
    with_it, without = (
        -((sums - there[..., None] * mean) ** 2).sum(axis=2) / 2 / (NOISE * CLIP) ** 2
        for mean in (np.array([CLIP, CLIP]), np.array([0.0, CLIP]))
    )
    return with_it, without


def loss_of(there: NDArray[np.bool_], sums: Floats) -> Floats:
    """Log-likelihood ratio of all that the server saw, float (runs,)."""
    with_it, without = log_densities(there, sums)
    return (with_it - without).sum(axis=1)


def loss_of_sums_alone(sums: Floats) -> Floats:
    """The same for an observer who sees the noisy sums and not who took part, float (runs,)."""
    rate, (runs, rounds, _) = RUN.client_rate, sums.shape
    absent, _ = log_densities(np.zeros((runs, rounds), dtype=np.bool_), sums)
    sides = [
        np.logaddexp(np.log(1 - rate) + absent, np.log(rate) + present)
        for present in log_densities(np.ones((runs, rounds), dtype=np.bool_), sums)
    ]
    return (sides[0] - sides[1]).sum(axis=1)


def batches(rate: float) -> Iterator[tuple[Floats, Floats]]:
    """Loss and weight of 600 000 runs, whose participation is drawn with ``rate`` in place of the real one."""
    rng = np.random.default_rng(3)
    for _ in range(12):
        there, sums = rounds_of(50_000, rate, rng)
        active = there.sum(axis=1)
        real = RUN.client_rate
        yield loss_of(there, sums), (real / rate) ** active * ((1 - real) / (1 - rate)) ** (RUN.rounds - active)


def measured_delta(epsilon: float, rate: float) -> tuple[float, float]:
    """Mean of the advantage beyond ``epsilon``, and its standard error."""
    values = np.concatenate([weight * np.maximum(0, 1 - np.exp(epsilon - loss)) for loss, weight in batches(rate)])
    return float(values.mean()), float(values.std() / np.sqrt(len(values)))


def test_the_published_epsilon_is_beaten() -> None:
    claimed = privacy_spent(RUN, NOISE, DELTA, "published").epsilon
    assert claimed <= 8
    delta, error = measured_delta(8.0, rate=RUN.client_rate)
    assert delta - CONFIDENT * error > 20 * DELTA


def test_the_sums_alone_beat_it_too() -> None:
    """The other provider's share of the sum distinguishes the rounds; the observer need not be the server."""
    _, sums = rounds_of(300_000, RUN.client_rate, np.random.default_rng(5))
    values = np.maximum(0, 1 - np.exp(8.0 - loss_of_sums_alone(sums)))
    assert values.mean() - CONFIDENT * values.std() / np.sqrt(len(values)) > 10 * DELTA


def test_the_valid_epsilon_holds_and_is_not_far_from_the_truth() -> None:
    valid = privacy_spent(RUN, NOISE, DELTA).epsilon
    delta, error = measured_delta(valid, rate=0.6)
    assert delta - CONFIDENT * error <= DELTA
    assert delta + CONFIDENT * error <= 1.5 * DELTA  # fine enough to tell
    below, error = measured_delta(valid - 1.0, rate=0.6)
    assert below - CONFIDENT * error > DELTA


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epsilon", [4.0, 8.0, 14.46])
def test_the_runs_follow_the_formula(epsilon: float) -> None:
    delta, error = measured_delta(epsilon, rate=0.6)
    assert abs(delta - participation.delta(epsilon, RUN.client_rate, RUN.rounds, NOISE)) < CONFIDENT * error

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl_audit.attacks.reconstruction import likelihoods

from ...oracles import cdmi as oracle

SHARES = st.lists(st.floats(0.001, 1.0), min_size=1, max_size=9)
TEMPERATURES = st.floats(0.2, 3.0)


def normal(values: list[float]) -> list[float]:
    return [value / sum(values) for value in values]


def test_top_is_best_first_and_ties_go_by_place() -> None:
    logits = np.array([1.0, 3.0, -np.inf, 3.0, 2.0, 1.0], dtype=np.float32)
    assert likelihoods.top(logits, 3).tolist() == [1, 3, 4]
    assert likelihoods.top(logits, 4).tolist() == [1, 3, 4, 0]
    assert likelihoods.top(logits, 99).tolist() == [1, 3, 4, 0, 5]


@given(
    values=st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0, -np.inf]), min_size=1, max_size=12), count=st.integers(1, 13)
)
def test_top_against_sorting(values: list[float], count: int) -> None:
    wanted = [at for at in sorted(range(len(values)), key=lambda at: (-values[at], at)) if math.isfinite(values[at])]
    assert likelihoods.top(np.array(values), count).tolist() == wanted[:count]


@given(values=st.lists(st.floats(-5, 5), min_size=1, max_size=8), temperature=TEMPERATURES)
def test_softmax_against_the_definition(values: list[float], temperature: float) -> None:
    found = np.exp(likelihoods.log_softmax(np.array(values), temperature))
    assert found.tolist() == pytest.approx(oracle.softmax(values, temperature))


def test_softmax_does_not_overflow() -> None:
    found = np.exp(likelihoods.log_softmax(np.array([1e4, 0.0, -np.inf]), 0.2))
    assert found.tolist() == [1.0, 0.0, 0.0]


def test_losses_of_equation_5_by_hand() -> None:
    """Median 2: 2 - 1/2, 2 - 2/2, 2 - 8/2."""
    assert likelihoods.loss_scores(np.array([1.0, 2.0, 8.0])).tolist() == [1.5, 1.0, -2.0]


@given(losses=st.lists(st.floats(0.01, 10), min_size=1, max_size=9), temperature=TEMPERATURES)
def test_loss_likelihood_against_the_definition(losses: list[float], temperature: float) -> None:
    found = np.exp(likelihoods.log_softmax(likelihoods.loss_scores(np.array(losses)), temperature))
    assert found.tolist() == pytest.approx(oracle.loss_likelihood(losses, temperature), abs=1e-12)


@pytest.mark.parametrize("losses", [[0.0, 0.0, 5.0], [0.0, 0.0, 1e-300], [0.0, -1e-9, 1.0]])
def test_losses_with_a_median_of_0_share_the_likelihood_among_the_zeros(losses: list[float]) -> None:
    found = np.exp(likelihoods.log_softmax(likelihoods.loss_scores(np.array(losses)), 0.3))
    assert found.tolist() == [0.5, 0.5, 0.0]


def test_losses_of_1e_300_do_not_overflow() -> None:
    found = likelihoods.log_softmax(likelihoods.loss_scores(np.array([5e-324, 5e-324, 1.0])), 0.3)
    assert np.exp(found).tolist() == [0.5, 0.5, 0.0]


def test_temperature_cools_in_a_straight_line_and_stays() -> None:
    found = [likelihoods.temperature_at(step, 0.3, 3.0, 3) for step in range(6)]
    assert found == pytest.approx([0.9, 0.7, 0.5, 0.3, 0.3, 0.3])
    assert likelihoods.temperature_at(0, 0.3, 3.0, 0) == 0.3


@given(
    pairs=st.lists(st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)), min_size=1, max_size=8),
    weight=st.floats(0.01, 0.99),
    kind=st.sampled_from(["geometric", "arithmetic"]),
)
def test_means_against_the_definition(pairs: list[tuple[float, float]], weight: float, kind: str) -> None:
    target, public = (normal(list(side)) for side in zip(*pairs, strict=True))
    found = np.exp(likelihoods.log_mean(np.log(target), np.log(public), weight, kind))  # type: ignore[arg-type]
    assert found.tolist() == pytest.approx(oracle.mean(target, public, weight, kind))


def test_means_by_hand() -> None:
    """Square roots of 0.8 * 0.2 twice are the same; the arithmetic mean of these is too."""
    target, public = np.log([0.8, 0.2]), np.log([0.2, 0.8])
    for kind in ("geometric", "arithmetic"):
        assert np.exp(likelihoods.log_mean(target, public, 0.5, kind)).tolist() == pytest.approx([0.5, 0.5])  # type: ignore[arg-type]
        assert likelihoods.log_mean(target, public, 1.0, kind) is target  # type: ignore[arg-type]
        assert likelihoods.log_mean(target, public, 0.0, kind) is public  # type: ignore[arg-type]


def test_a_candidate_that_the_target_rules_out_is_out_of_the_geometric_mean_alone() -> None:
    target, public = np.array([0.0, -np.inf]), np.log([0.5, 0.5])
    assert np.exp(likelihoods.log_mean(target, public, 0.4, "geometric")).tolist() == [1.0, 0.0]
    assert np.exp(likelihoods.log_mean(target, public, 0.4, "arithmetic")).tolist() == pytest.approx([0.7, 0.3])


@given(values=SHARES, mass=st.floats(0.01, 1.0))
def test_nucleus_against_the_definition(values: list[float], mass: float) -> None:
    likely = np.array(normal(values))
    assert likelihoods.nucleus(np.log(likely), mass).tolist() == oracle.nucleus(np.exp(np.log(likely)), mass)


def test_nucleus_keeps_one_at_least() -> None:
    assert likelihoods.nucleus(np.log([0.2, 0.7, 0.1]), 0.01).tolist() == [1]


def test_draws_are_in_proportion_within_the_nucleus() -> None:
    log_p, rng = np.log([0.1, 0.3, 0.6]), np.random.default_rng(0)
    counts = np.bincount([likelihoods.draw(log_p, 0.9, rng) for _ in range(6000)], minlength=3)
    assert counts[0] == 0
    assert counts[1] / 6000 == pytest.approx(1 / 3, abs=0.03)


@given(values=SHARES, seed=st.integers(0, 1000))
def test_a_draw_takes_one_number_and_never_what_cannot_be(values: list[float], seed: int) -> None:
    rng, other = np.random.default_rng(seed), np.random.default_rng(seed)
    log_p = np.append(np.log(normal(values)), -np.inf)
    assert likelihoods.draw(log_p, 1.0, rng) < len(values)
    other.random()
    assert rng.random() == other.random()

"""Signals and their sums, against every subset tried."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pfl_audit.attacks.inversion.analytic.assignment import Settling, assign
from pfl_audit.attacks.inversion.analytic.noise import Noise
from tests.oracles.inversion import added_up, subsets

EXACT = Noise(0.0, 1e-12, everywhere=False)


def drawn(seed, count, width, alike=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, width)) + alike * rng.normal(size=width), rng


@settings(deadline=None, max_examples=40)
@example(seed=1760, count=9, height=2, alike=0)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 9), height=st.integers(1, 6), alike=st.sampled_from([0, 3]))
def test_finds_what_trying_every_subset_finds(seed, count, height, alike):
    signals, rng = drawn(seed, count, 6, alike)
    rows = rng.integers(height, size=count)
    used = np.unique(rows)
    sums = added_up(rows, signals, height)[used]
    found = assign(sums, signals, 1, EXACT)
    assert found.complete
    assert found.sure.all()
    assert used[found.rows[:, 0]].tolist() == rows.tolist()
    for number, total in enumerate(sums):
        assert list(subsets(total, signals, 1e-9)) == [tuple(np.flatnonzero(found.rows[:, 0] == number))]


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), height=st.integers(1, 5))
def test_signals_that_stand_twice(seed, height):
    signals, rng = drawn(seed, 8, 12, 2.0)
    pairs = np.sort(rng.integers(height, size=(8, 2)), axis=1)
    used = np.unique(pairs)
    sums = added_up(pairs.flatten(), np.repeat(signals, 2, axis=0), height)[used]
    found = assign(sums, signals, 2, EXACT)
    assert used[found.rows].tolist() == pairs.tolist()


def test_more_signals_than_numbers_in_one():
    signals, rng = drawn(0, 150, 40, 3.0)
    rows = np.concatenate([np.arange(60), rng.integers(60, size=90)])
    found = assign(added_up(rows, signals, 60), signals, 1, EXACT)
    assert found.rows[:, 0].tolist() == rows.tolist()


def test_a_signal_that_stands_nowhere_is_left_over():
    signals, _ = drawn(1, 6, 8)
    found = assign(added_up([0, 1, 1, 2], signals[:4], 3), signals, 1, EXACT)
    assert found.complete
    assert found.rows[:, 0].tolist() == [0, 1, 1, 2, -1, -1]
    assert found.sure.tolist() == [True] * 4 + [False] * 2


@pytest.mark.parametrize("width", [8, 64])
def test_sums_of_other_signals_are_left_alone(width):
    signals, rng = drawn(2, 30, width)
    found = assign(rng.normal(size=(20, width)), signals, 1, EXACT)
    assert (found.rows == -1).all()
    assert found.residual == 1.0
    assert not found.complete


@pytest.mark.parametrize("sigma", [0.01, 0.1, 0.3, 1.0])
def test_what_is_sure_under_noise_is_right(sigma):
    wrong = sure = 0
    for seed in range(6):
        signals, rng = drawn(seed, 60, 80, 2.0)
        rows = rng.integers(25, size=60)
        used = np.unique(rows)
        sums = added_up(rows, signals, 25)[used] + sigma * rng.normal(size=(len(used), 80))
        seen = signals + sigma * rng.normal(size=signals.shape)
        found = assign(sums, seen, 1, Noise(sigma, 1e-12, everywhere=True))
        right = used[found.rows[:, 0]] == rows
        sure += found.sure.sum()
        wrong += (found.sure & ~right).sum()
    assert wrong <= 0.02 * 360
    assert sure > 0.95 * 360 or sigma > 0.1


def test_settling_costs_are_what_they_say():
    signals, rng = drawn(3, 12, 9)
    place, sums = rng.integers(4, size=12), rng.normal(size=(4, 9))
    state = Settling(sums, signals, place)
    moves, exchanges = state.costs()
    before = (state.residuals() ** 2).sum()

    def after(other):
        return (Settling(sums, signals, other).residuals() ** 2).sum() - before

    for signal in range(12):
        for row in range(4):
            moved = place.copy()
            moved[signal] = row
            assert moves[signal, row] == (np.inf if row == place[signal] else pytest.approx(after(moved)))
        for other in range(12):
            swapped = place.copy()
            swapped[[signal, other]] = place[[other, signal]]
            same = place[signal] == place[other]
            assert exchanges[signal, other] == (np.inf if same else pytest.approx(after(swapped)))
    state.improve()
    assert (state.residuals() ** 2).sum() <= before
    assert min(each.min() for each in state.costs()) > -1e-6

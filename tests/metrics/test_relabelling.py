"""Arrangements of labels, against all there are."""

from itertools import combinations

import numpy as np
import pytest

from pfl_audit.metrics.relabelling import Relabelling

DRAWS = 20_000


def chances(log_odds: np.ndarray, members: int) -> dict[tuple[bool, ...], float]:
    """Every labelling with a number of members, with its probability given that number."""
    n = len(log_odds)
    odds = {
        tuple(at in chosen for at in range(n)): float(np.exp(log_odds[list(chosen)].sum()))
        for chosen in combinations(range(n), members)
    }
    return {labels: each / sum(odds.values()) for labels, each in odds.items()}


@pytest.mark.parametrize("log_odds", [np.zeros(6), np.array([2.0, -1.0, 0.5, 0.0, -2.0, 1.0])])
def test_arrangements_come_as_often_as_the_odds_say(log_odds: np.ndarray) -> None:
    labels = np.array([True, True, True, False, False, False])
    drawn = Relabelling(labels, np.arange(6), log_odds).draw(np.random.default_rng(0), DRAWS)
    assert drawn[0].tolist() == labels.tolist()
    found: dict[tuple[bool, ...], int] = {}
    for row in drawn[1:].tolist():
        found[tuple(row)] = found.get(tuple(row), 0) + 1
    expected = chances(log_odds, 3)
    assert set(found) == set(expected)
    for row, chance in expected.items():
        assert found[row] / DRAWS == pytest.approx(chance, abs=4 * np.sqrt(chance / DRAWS))


def test_whole_groups_move_and_mixed_ones_exchange_inside() -> None:
    groups = ["a", "a", "a", "b", "b", "c", "d", "d", "d"]
    labels = np.array([True, True, True, False, False, True, True, False, False])
    drawn = Relabelling.plain(labels, groups).draw(np.random.default_rng(0), 500)
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert (drawn[:, 0] == drawn[:, 2]).all()
    assert (drawn[:, 3] == drawn[:, 4]).all()
    whole = drawn[:, [0, 3, 5]].sum(axis=1)
    assert (whole == 2).all()  # two of three whole groups are of members, whatever their sizes
    assert (drawn[:, 6:].sum(axis=1) == 1).all()
    assert len({tuple(row) for row in drawn.tolist()}) == 3 * 3


def test_one_group_a_class_can_only_change_places() -> None:
    drawn = Relabelling.plain(np.array([True, True, False]), ["a", "a", "b"]).draw(np.random.default_rng(0), 50)
    assert {tuple(row) for row in drawn.tolist()} == {(True, True, False), (False, False, True)}


def test_nothing_moves_where_all_is_one_group_of_one_class() -> None:
    drawn = Relabelling.plain(np.array([True, True]), ["a", "a"]).draw(np.random.default_rng(0), 3)
    assert drawn.all()
    assert drawn.shape == (4, 2)


def test_companies_that_can_move_are_those_of_even_odds() -> None:
    labels = np.array([True, False, True])
    assert Relabelling.plain(labels).movable == 3.0
    told = Relabelling(labels, np.arange(3), np.array([50.0, -50.0, 0.0]))
    assert told.movable == pytest.approx(1.0)

"""Rows in blocks where there are too many for memory at once: the same numbers, and less memory."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pfl_audit.metrics import arrays, intervals
from pfl_audit.metrics.arrays import by_rows, permuted_rows
from pfl_audit.metrics.contrasts import area, item_gap, permuted, resampled
from pfl_audit.metrics.intervals import bootstrap_counts
from pfl_audit.metrics.permutation import permute

UNITS, ROWS = 600, 400
LABELS = np.arange(UNITS) % 3 == 0
CONTRASTS = [item_gap(np.random.default_rng(1).normal(size=UNITS), np.ones(UNITS)), area(np.arange(UNITS) * 1.0)]


def permutation_tests() -> list[Any]:
    rng = np.random.default_rng(0)
    values = np.random.default_rng(2).normal(size=(3, UNITS))
    weights = bootstrap_counts(LABELS, rng, ROWS).T
    return [
        permute(values, LABELS, rng, ROWS),
        permuted(CONTRASTS, LABELS, rng, ROWS),
        *(resampled(contrast, LABELS, weights) for contrast in CONTRASTS),
        rng.integers(1 << 31),
    ]


def test_blocks_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = permutation_tests()
    monkeypatch.setattr(arrays, "_MEMORY", UNITS * ROWS // 4)
    for one, other in zip(whole, permutation_tests(), strict=True):
        if isinstance(one, np.integer):
            assert one == other  # the generator is where it was
            continue
        for name, value in vars(one).items():
            np.testing.assert_allclose(getattr(other, name), value, rtol=1e-9, atol=1e-12)


def test_resamples_are_those_of_one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts, of which each class has another size, and the last is smaller."""
    whole, generators = [], [np.random.default_rng(5) for _ in range(2)]
    for rng, cells in zip(generators, (1 << 22, UNITS * 7), strict=True):
        monkeypatch.setattr(intervals, "_DRAWN", cells)
        intervals._counts.cache_clear()
        whole.append(bootstrap_counts(LABELS, rng, 50))
    np.testing.assert_array_equal(*whole)
    assert generators[0].random() == generators[1].random()


def test_permutations_are_those_of_numpy() -> None:
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    drawn = permuted_rows(LABELS, rng, 50)
    np.testing.assert_array_equal(drawn[0], LABELS)
    np.testing.assert_array_equal(drawn[1:], again.permuted(np.tile(LABELS, (50, 1)), axis=1))


def test_every_row_comes_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def first(rows: Any) -> Any:
        seen.append(len(rows))
        return rows[:, 0]

    table = np.arange(1000.0).reshape(100, 10)
    np.testing.assert_array_equal(by_rows(first, table), table[:, 0])
    assert seen == [100]
    monkeypatch.setattr(arrays, "_MEMORY", 40)
    np.testing.assert_array_equal(by_rows(first, table), table[:, 0])
    assert sum(seen) == 200
    assert max(seen[1:]) <= 4
    assert min(seen) >= 2


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    work()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> object:
        return permuted(CONTRASTS[:1], LABELS, np.random.default_rng(0), 4000)

    whole = peak(work)
    monkeypatch.setattr(arrays, "_MEMORY", UNITS * 400)
    assert peak(work) < whole / 3

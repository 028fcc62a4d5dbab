"""Contrasts and their permutation test against slow, plain loops."""

import numpy as np
import pytest

from pfl_audit.metrics.contrasts import area, difference, item_gap, observed, permuted, resampled
from pfl_audit.metrics.intervals import bootstrap_weights
from pfl_audit.metrics.permutation import permute

LABELS = np.array([True, True, True, False, False, False, False])


def mean_gap(items: list[list[float]], labels: np.ndarray) -> float:
    """Mean over all items of members minus that over the others, one by one; 0 where a class has none."""
    members = [value for some, label in zip(items, labels, strict=True) if label for value in some]
    others = [value for some, label in zip(items, labels, strict=True) if not label for value in some]
    return sum(members) / len(members) - sum(others) / len(others) if members and others else 0.0


def items(rng: np.random.Generator, providers: int = 7) -> list[list[float]]:
    return [list(rng.integers(0, 2, size=int(rng.integers(0, 9))).astype(float)) for _ in range(providers)]


def totals(found: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([sum(some) for some in found], float), np.array([len(some) for some in found], float)


@pytest.mark.parametrize("seed", range(20))
def test_the_gap_is_the_difference_of_means_over_items(seed: int) -> None:
    found = items(np.random.default_rng(seed))
    gap = np.nan_to_num(observed(item_gap(*totals(found)), LABELS))
    assert gap == pytest.approx(mean_gap(found, LABELS))


def test_the_permutation_test_is_that_of_the_printed_gap() -> None:
    """Every arrangement by a loop: the p value is that of means over pages, whatever the sizes of the providers."""
    rng = np.random.default_rng(3)
    found = items(rng)
    found[0] = [1.0] * 40
    test = permuted([item_gap(*totals(found))], LABELS, np.random.default_rng(0), permutations=300)
    again = np.random.default_rng(0)
    drawn = again.permuted(np.tile(LABELS, (300, 1)), axis=1)
    slow = np.array([mean_gap(found, labels) for labels in drawn])
    reached = (slow >= mean_gap(found, LABELS) - 1e-9).sum()
    assert test.p_values[0] == pytest.approx((1 + reached) / 301)
    assert test.deviations[0] == pytest.approx(slow.std())


def test_one_item_each_is_the_plain_permutation() -> None:
    values = np.random.default_rng(0).normal(size=(2, 7))
    plain = permute(values, LABELS, np.random.default_rng(1), 500)
    test = permuted([item_gap(row, np.ones(7)) for row in values], LABELS, np.random.default_rng(1), 500)
    assert test.p_values == pytest.approx(plain.p_values)
    assert test.gaps == pytest.approx(plain.gaps)


@pytest.mark.parametrize("seed", range(10))
def test_the_area_counts_pairs_and_halves_of_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, size=7).astype(float)
    scores[int(rng.integers(7))] = np.nan
    weights = rng.integers(0, 3, size=(5, 7)).astype(float)
    fast = area(scores)(weights * LABELS, weights * ~LABELS)
    for row, value in zip(weights, fast, strict=True):
        won = pairs = 0.0
        for one in np.flatnonzero(LABELS & ~np.isnan(scores)):
            for other in np.flatnonzero(~LABELS & ~np.isnan(scores)):
                pairs += row[one] * row[other]
                won += row[one] * row[other] * ((scores[one] > scores[other]) + (scores[one] == scores[other]) / 2)
        assert value == pytest.approx(won / pairs - 0.5) if pairs else np.isnan(value)


def test_strata_take_a_mix_of_items_out() -> None:
    """Members are asked easy questions nine times of ten, others hard ones; within each kind nothing differs."""
    sums, counts = np.zeros((40, 2)), np.zeros((40, 2))
    labels = np.arange(40) < 20
    counts[labels], counts[~labels] = (9, 1), (1, 9)
    sums[:, 0], sums[:, 1] = counts[:, 0], 0.0
    assert observed(item_gap(sums.sum(axis=1), counts.sum(axis=1)), labels) == pytest.approx(0.8)
    assert observed(item_gap(sums, counts), labels) == pytest.approx(0.0)


def test_strata_count_by_the_harmonic_mean_of_their_classes() -> None:
    labels = np.array([True, True, False, False])
    counts = np.array([[2.0, 0.0], [0.0, 4.0], [2.0, 0.0], [0.0, 1.0]])
    sums = np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 0.0], [0.0, 1.0]])
    first, second = 2 * 2 / 4, 4 * 1 / 5
    assert observed(item_gap(sums, counts), labels) == pytest.approx((first * 0.5 + second * -0.5) / (first + second))


def test_a_difference_is_paired() -> None:
    """The same providers are drawn for both, so what both share leaves no spread."""
    values = np.random.default_rng(0).normal(size=7)
    both = difference(item_gap(values + LABELS, np.ones(7)), item_gap(values, np.ones(7)))
    found = resampled(both, LABELS, bootstrap_weights(LABELS, np.random.default_rng(0)))
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 1.0, 1.0))


def test_what_a_class_lacks_is_no_gap() -> None:
    counts = np.array([1.0, 1, 1, 0, 0, 0, 0])
    contrast = item_gap(counts, counts)
    assert np.isnan(observed(contrast, LABELS))
    assert permuted([contrast], LABELS, np.random.default_rng(0), 200).p_values[0] == 1.0
    nothing = area(np.full(7, np.nan))
    assert permuted([nothing], LABELS, np.random.default_rng(0), 200).p_values[0] == 1.0

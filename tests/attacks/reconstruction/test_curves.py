from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl_audit.attacks.reconstruction.measures import Order

from ...oracles import cdmi as oracle

SCORES = [0.0, 0.25, 0.5, 1.0]
CASES = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from(SCORES), min_size=n, max_size=n),
        st.lists(st.sampled_from(SCORES), min_size=n, max_size=n),
        st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any),
    )
)
DISTINCT = st.integers(2, 10).flatmap(
    lambda n: st.tuples(st.lists(st.sampled_from(SCORES), min_size=n, max_size=n), st.permutations(range(n)))
)


def by(scores: list[float]) -> Order:
    return Order.by(np.array(scores, dtype=float))


def area(values: list[float], scores: list[float]) -> float:
    return float(by(scores).area(np.array(values))[0])


def test_by_hand() -> None:
    """Right, wrong, right, wrong: AccAt 1, 1/2, 2/3, 1/2; its integral is their mean, 2/3."""
    right, order = np.array([1.0, 0.0, 1.0, 0.0]), by([9, 8, 7, 6])
    shares, steps = order.steps(right)
    assert shares.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert steps.tolist() == pytest.approx([1, 1 / 2, 2 / 3, 1 / 2])
    assert order.area(right)[0] == pytest.approx((1 + 1 / 2 + 2 / 3 + 1 / 2) / 4)
    assert order.at(right, (0.01, 0.25, 0.26, 0.5, 0.51, 1.0)).tolist() == [
        pytest.approx([1, 1, 1 / 2, 1 / 2, 2 / 3, 1 / 2])
    ]


def test_hamming_area_above_by_hand() -> None:
    """HamAt 0.2, then (0.2 + 0.6) / 2 = 0.4: HamAAC is 1 - 0.3."""
    assert 1 - area([0.2, 0.6], [2, 1]) == pytest.approx(0.7)


def test_shares_of_the_papers_table_5() -> None:
    """Of 777 fields, 1 % are 8 and 5 % are 39; of 791, 8 and 40; and of 700, 1 % are 7 although 700 * 0.01 is not."""
    for size, share, first in ((777, 0.01, 8), (777, 0.05, 39), (791, 0.01, 8), (791, 0.05, 40), (700, 0.01, 7)):
        right = np.zeros(size)
        right[0] = 1.0
        assert by(list(range(size, 0, -1))).at(right, [share]).item() == pytest.approx(1 / first)


def test_a_tie_counts_as_its_mean() -> None:
    """Either way round, so that the order of the input decides nothing."""
    for values in ([1.0, 0.0], [0.0, 1.0]):
        assert by([5, 5]).at(np.array(values), [0.01]).item() == 0.5
        assert area(values, [5, 5]) == 0.5


@given(case=CASES)
def test_against_the_definitions(case: tuple[list[float], list[float], list[int]]) -> None:
    values, scores, weights = case
    order = Order.by(np.array(scores), np.array([weights], dtype=float))
    drawn = [at for at, times in enumerate(weights) for _ in range(times)]
    some, own = [values[at] for at in drawn], [scores[at] for at in drawn]
    assert order.area(np.array(values))[0] == pytest.approx(oracle.area(some, own))
    for share in (Fraction(1, 100), Fraction(1, 20), Fraction(1, 2), Fraction(1)):
        first = -(-share.numerator * len(drawn) // share.denominator)
        assert order.at(np.array(values), [float(share)]).item() == pytest.approx(float(oracle.at(some, own, first)))


@given(case=CASES, seed=st.integers(0, 99))
def test_the_order_of_the_fields_changes_nothing(case: tuple[list[float], list[float], list[int]], seed: int) -> None:
    values, scores, _ = case
    shuffle = np.random.default_rng(seed).permutation(len(values))
    mixed = by(np.array(scores)[shuffle].tolist())
    assert mixed.area(np.array(values)[shuffle])[0] == pytest.approx(area(values, scores))
    assert mixed.steps(np.array(values)[shuffle])[1] == pytest.approx(by(scores).steps(np.array(values))[1])


@given(case=DISTINCT)
def test_first_property_sorted_by_similarity_is_the_best_order(case: tuple[list[float], list[int]]) -> None:
    """Section 5.3, 1: and any swap that puts the better one first is a gain (appendix B)."""
    similar, order = case
    scores = [float(place) for place in order]
    best = area(similar, similar_scores := sorted_scores(similar))
    assert area(similar, scores) <= best + 1e-12
    assert 1 - area([1 - value for value in similar], similar_scores) == pytest.approx(best)
    for a in range(len(similar)):
        for b in range(len(similar)):
            if similar[a] > similar[b] and scores[a] < scores[b]:
                swapped = scores.copy()
                swapped[a], swapped[b] = swapped[b], swapped[a]
                assert area(similar, swapped) > area(similar, scores)


@given(case=CASES)
def test_second_property_a_better_field_is_a_better_area(case: tuple[list[float], list[float], list[int]]) -> None:
    """Section 5.3, 2: for every field, the last one too."""
    distances, scores, _ = case
    for place, distance in enumerate(distances):
        if distance > 0:
            better = distances.copy()
            better[place] = distance / 2
            assert 1 - area(better, scores) > 1 - area(distances, scores)


@given(case=CASES)
def test_areas_lie_between_0_and_1(case: tuple[list[float], list[float], list[int]]) -> None:
    values, scores, _ = case
    assert -1e-12 <= area(values, scores) <= 1 + 1e-12
    assert area([1.0] * len(values), scores) == pytest.approx(1.0)
    assert area([0.0] * len(values), scores) == 0.0


@pytest.mark.parametrize("scores", [[], [1.0, float("nan")], [float("inf")]])
def test_scores_must_be_numbers(scores: list[float]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        by(scores)


def sorted_scores(similar: list[float]) -> list[float]:
    """Distinct scores in the order of the similarities."""
    order = sorted(range(len(similar)), key=lambda at: similar[at])
    return [float(order.index(at)) for at in range(len(similar))]

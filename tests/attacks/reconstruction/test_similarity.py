import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl_audit.attacks.reconstruction import measures

from ...oracles import cdmi as oracle

TOKENS = st.integers(1, 6).flatmap(
    lambda n: st.tuples(*(st.lists(st.sampled_from([5, 7, 30521, 65536]), min_size=n, max_size=n) for _ in range(2)))
)


def test_by_hand() -> None:
    """1 2 3 4 against 2 3 4 1: all places differ; one deletion and one insertion; in reach 1 all match but 1."""
    truth, guess = (1, 2, 3, 4), (2, 3, 4, 1)
    assert measures.perfect(truth, guess) == 0.0
    assert measures.perfect(truth, (1, 2, 3, 4)) == 1.0
    assert measures.hamming(truth, guess) == 1.0
    assert measures.hamming(truth, (1, 2, 9, 4)) == 0.25
    assert measures.levenshtein(truth, guess) == 0.5
    assert measures.jaro_winkler(truth, guess) == pytest.approx(1 - (3 / 4 + 3 / 4 + 1) / 3)
    # Three of four match, no swap: Jaro is (3/4 + 3/4 + 1) / 3 = 5/6, and two tokens of prefix take 0.2 off the rest.
    assert measures.jaro_winkler(truth, (1, 2, 9, 4)) == pytest.approx((1 / 6) * 0.8)


@given(pair=TOKENS)
def test_against_the_definitions(pair: tuple[list[int], list[int]]) -> None:
    truth, guess = pair
    assert measures.levenshtein(truth, guess) == pytest.approx(oracle.levenshtein(truth, guess) / len(truth))
    assert measures.jaro_winkler(truth, guess) == pytest.approx(oracle.jaro_winkler_distance(truth, guess))


@given(pair=TOKENS)
def test_distances_are_0_for_the_truth_alone_and_symmetric(pair: tuple[list[int], list[int]]) -> None:
    truth, guess = (tuple(tokens) for tokens in pair)
    found = measures.distances(truth, guess)
    assert all(0 <= value <= 1 for value in found)
    assert found == pytest.approx(measures.distances(guess, truth))
    assert (found[0] == 1.0) == (found[1] == 0.0) == (found[2] == 0.0) == (truth == guess)


@pytest.mark.parametrize("guess", [(1, 2), (), (1, 2, 3, 4)])
def test_hamming_wants_as_many_tokens(guess: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="as many tokens"):
        measures.hamming((1, 2, 3), guess)


def test_improvement_factor_by_hand() -> None:
    """(0.04 + 0.01) / (0 + 0.01) = 5, 0.81 / 0.41, 0.81 / 0.81, 0.51 / 0.26."""
    attack, baseline = np.array([0.04, 0.40, 0.80, 0.25]), np.array([0.0, 0.80, 0.80, 0.50])
    wanted = (5 + 0.81 / 0.41 + 1 + 0.51 / 0.26) / 4
    assert measures.improvement_factor(attack, baseline, 0.01) == pytest.approx(wanted)
    assert measures.improvement_factor(baseline, baseline, 0.01) == 1.0
    both = measures.improvement_factor(np.stack([attack, baseline]), np.stack([baseline, baseline]), 0.01)
    assert both.tolist() == pytest.approx([wanted, 1.0])

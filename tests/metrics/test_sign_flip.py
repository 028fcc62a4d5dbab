from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from pfl_audit.metrics.permutation import sign_flip


@given(st.lists(st.integers(-4, 4), max_size=9))
def test_every_assignment_of_signs(differences: list[int]) -> None:
    sums = [
        sum(sign * abs(one) for sign, one in zip(signs, differences, strict=True))
        for signs in product((-1, 1), repeat=len(differences))
    ]
    wanted = sum(one >= sum(differences) for one in sums) / len(sums)
    assert sign_flip(differences) == pytest.approx(wanted)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 5))
def test_single_secrets_are_mcnemars_exact_test(more: int, fewer: int, same: int) -> None:
    found = sign_flip([1] * more + [-1] * fewer + [0] * same)
    wanted = binomtest(more, more + fewer, alternative="greater").pvalue if more + fewer else 1.0
    assert found == pytest.approx(wanted)


def test_five_units_that_differ_reach_one_in_32() -> None:
    assert sign_flip([1] * 5) == 1 / 32
    assert sign_flip([7, 0, 0]) == 0.5
    assert sign_flip([]) == 1.0

from itertools import product
from math import comb

import numpy as np
import pytest

from pfl_audit.metrics.arrangements import FEWEST, Arrangements, arrangements_of


def counted(labels: list[bool], groups: list[str]) -> int:
    """All ways to label the units that move pure groups as wholes, and keep each class's number of them."""

    def kept(found: tuple[bool, ...]) -> list[tuple[str, int]] | None:
        pure = [0, 0]
        mixed = []
        for group in sorted(set(groups)):
            before = [label for label, name in zip(labels, groups, strict=True) if name == group]
            after = [label for label, name in zip(found, groups, strict=True) if name == group]
            if len(set(before)) == 2:
                mixed.append((group, sum(after)))
            elif len(set(after)) == 2:
                return None
            else:
                pure[after[0]] += 1
        return [("non-members", pure[0]), ("members", pure[1]), *mixed]

    observed = kept(tuple(labels))
    return sum(kept(found) == observed for found in product((False, True), repeat=len(labels)))


@pytest.mark.parametrize("seed", range(30))
def test_count_is_that_of_all_ways_to_label_the_units(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [f"g{number}" for number in rng.integers(0, rng.integers(1, 8), 9)]
    labels = rng.random(9) < 0.5
    if seed % 2:  # groups of one class, as where they were drawn
        labels = np.array([int(group[1]) % 2 == 0 for group in groups])
    assert arrangements_of(labels, groups).count == counted(labels.tolist(), groups)


def test_units_that_are_their_own_groups_have_all_arrangements() -> None:
    labels = np.arange(200) < 100
    assert arrangements_of(labels, [str(unit) for unit in range(200)]).count == comb(200, 100)


def test_groups_of_both_kinds_are_counted() -> None:
    labels = np.array([True, True, True, False, False, False, True])
    assert arrangements_of(labels, ["a", "a", "b", "b", "b", "c", "d"]) == Arrangements(2, 1, ((3, 1),))
    assert arrangements_of(labels, ["a", "a", "b", "b", "b", "c", "d"]).count == 9


@pytest.mark.parametrize(
    ("found", "needed"),
    [
        (Arrangements(1, 1, ()), 3),
        (Arrangements(2, 2, ()), 3),
        (Arrangements(1, 5, ()), 2),
        (Arrangements(0, 0, ((4, 2),)), 2),
        (Arrangements(1, 30, ()), 0),
        (Arrangements(3, 3, ()), 0),
    ],
)
def test_smallest_number_of_groups_for_twenty_arrangements(found: Arrangements, needed: int) -> None:
    assert found.groups_needed() == needed
    more = Arrangements(max(needed, found.members), max(needed, found.others), found.mixed)
    assert more.count >= FEWEST
    assert needed == 0 or found.count < FEWEST

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pfl_audit.attacks.membership.evaluation import ENOUGH as ENOUGH_ATTACKED
from pfl_audit.core import power
from pfl_audit.core.attack import ATTACKS
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from tests.oracles import power as oracle


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("accuracy", "members", "others", "control"),
    [
        (0.55, 85, 85, False),
        (0.60, 85, 85, False),
        (0.60, 85, 85, True),
        (0.70, 34, 34, False),
        (0.70, 34, 34, True),
        (0.70, 20, 180, False),
        (0.80, 20, 20, True),
        (0.50, 85, 85, False),
    ],
)
def test_membership_against_drawn_answers(accuracy: float, members: int, others: int, *, control: bool) -> None:
    expected = oracle.membership(accuracy, members, others, control=control)
    assert power.accuracy_power(accuracy, members, others, control=control) == pytest.approx(expected, abs=0.06)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("gap", "members", "others"),
    [(0.1, [2] * 100, [2] * 100), (0.1, [1, 1, 2, 4] * 40, [1, 1, 2, 4] * 40), (0.2, [1, 3] * 20, [1, 3] * 50)],
)
def test_a_gap_against_drawn_answers(gap: float, members: list[int], others: list[int]) -> None:
    expected = oracle.gap(gap, members, others)
    assert power.gap_power(gap, members, others, control=False) == pytest.approx(expected, abs=0.1)


def test_the_smallest_effect_is_found_in_four_of_five() -> None:
    table = power.table_of([2] * 100, [3] * 100)
    accuracy = table.smallest["accuracy"]["with_control"]
    gap = table.smallest["gap"]["alone"]
    assert accuracy is not None
    assert gap is not None
    assert power.accuracy_power(accuracy, 85, 85, control=True) == pytest.approx(0.8, abs=1e-4)
    assert power.gap_power(gap, [2] * 100, [3] * 100, control=False) == pytest.approx(0.8, abs=1e-4)


def test_more_providers_find_more_and_a_control_costs_power() -> None:
    few, many = (power.table_of([2] * size, [2] * size).rows for size in (40, 200))
    for small, large in zip(few, many, strict=True):
        assert small["leak"] == large["leak"]
        assert small["alone"] < large["alone"]
        assert small["with_control"] <= small["alone"]
    assert [row["effect"] for row in few] == [*power.ACCURACIES, *power.GAPS]


def test_the_findings_of_the_table_are_those_of_an_audit_of_pages() -> None:
    specs = [spec for attack in ATTACKS.installed().values() if attack.subject == "questions" for spec in attack.specs]
    always = [one for one in specs if one.part_of is None and one.on_request is None and not one.optional]
    assert len(always) == power.FINDINGS


def test_correlated_pages_count_less() -> None:
    assert power.gap_power(0.1, [8] * 25, [8] * 25, control=False) < power.gap_power(
        0.1, [1] * 200, [1] * 200, control=False
    )


def test_too_few_providers() -> None:
    assert power.ENOUGH == ENOUGH_ATTACKED
    assert not power.table_of([1] * (power.NEEDED - 1), [1] * 300).rows
    assert power.table_of([1] * power.NEEDED, [1] * 300).rows
    assert round(power.ATTACKED * power.NEEDED) == power.ENOUGH


def test_pages_that_were_trained_on_are_not_asked_about(page: Callable[..., Document]) -> None:
    splits = {"A": "red_test_positive", "B": "red_test_negative", "C": "blue_train", "D": "train"}
    pages = [replace(page(provider=provider, name=f"{provider}_1"), split=split) for provider, split in splits.items()]
    labels = dict.fromkeys("ACD", Membership.MEMBER) | {"B": Membership.NON_MEMBER}
    corpus = Corpus(tuple(Query(one.id, one, "?", ("x",)) for one in pages), labels)
    table = power.power_table(corpus)
    assert table is not None
    assert (table.members, table.others) == ((1,), (1,))
    assert power.power_table(Corpus(corpus.queries)) is None


def test_what_cannot_be_found_has_no_smallest_effect() -> None:
    assert power.table_of([10**6, *[1] * 23], [10**6, *[1] * 23]).smallest["gap"]["with_control"] is None
    assert np.isfinite(power.table_of([1] * 24, [1] * 24).smallest["accuracy"]["alone"] or np.nan)

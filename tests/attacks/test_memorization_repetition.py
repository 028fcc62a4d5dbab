"""Memorization by the number of training pages: groups, their joint test, the trend, and what is counted."""

from itertools import permutations

import numpy as np
import pytest

from pfl_audit.attacks.memorization import present
from pfl_audit.attacks.memorization.measures import ACC, EXPOSURE, RATIO, memory
from pfl_audit.attacks.memorization.plain import plain_sentence
from pfl_audit.attacks.memorization.repetition import groups_of
from pfl_audit.attacks.memorization.secrets import training_texts
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.units import PROVIDER
from pfl_audit.metrics.contrasts import area, permuted

from .simulated_answers import pages, repeated

WHOLE = Budget.shared(1)


def ranges(held: list[int]) -> list[tuple[str, int]]:
    numbers = np.array([*held, 9, 9], dtype=float)
    labels = np.arange(len(numbers)) < len(held)  # two non-members, whose values stand on training pages too
    groups, roles = groups_of(numbers, labels)
    assert (roles[~labels] == 0).all()
    return [(text, int((roles == at).sum())) for at, text in enumerate(groups.values(), 1)]


def test_groups_of_members_by_training_pages() -> None:
    held = [0] * 5 + [1] * 6 + [2, 3, 4, 4, 4] + [5, 19, 7, 8, 9] + [20, 21, 30, 400, 20]
    assert ranges(held) == [("0", 5), ("1", 6), ("2 to 4", 5), ("5 to 19", 5), ("20 or more", 5)]


def test_no_group_is_empty() -> None:
    assert ranges([1] * 5 + [20] * 7) == [("1", 5), ("20 or more", 7)]


def test_values_that_all_stand_on_one_page_are_one_group() -> None:
    assert ranges([1] * 9) == [("1", 9)]


@pytest.mark.parametrize(
    ("held", "found"),
    [
        ([1] * 8 + [20], [("1 or more", 9)]),
        ([1] + [2] * 8, [("0 to 4", 9)]),
        ([0] * 4 + [1] * 8, [("0 to 1", 12)]),
        ([1] * 3 + [3] * 3, [("0 to 4", 6)]),
        ([1] * 5 + [6] * 5 + [25], [("1", 5), ("5 or more", 6)]),
    ],
)
def test_a_few_companies_are_no_group(held: list[int], found: list[tuple[str, int]]) -> None:
    assert ranges(held) == found


def test_fewer_members_than_a_group_needs_have_none() -> None:
    assert ranges([1, 2, 20, 20]) == []
    assert groups_of(np.full(9, np.nan), np.ones(9, dtype=bool))[0] == {}


def test_joint_test_against_every_arrangement() -> None:
    """Seven units: five members, two of which hold repeated values, and every order of these roles."""
    scores = np.random.default_rng(2).normal(size=7)
    roles = np.array([1, 1, 1, 2, 2, 0, 0])

    def areas(order: np.ndarray) -> list[float]:
        sides = (scores[order >= least] for least in (1, 2))
        return [float(np.mean([[a > b for a in side] for b in scores[order == 0]])) - 0.5 for side in sides]

    every = np.array([areas(roles[list(order)]) for order in permutations(range(7))])
    largest = (every / every.std(axis=0)).max(axis=1)
    observed = np.array(areas(roles)) / every.std(axis=0)
    found = permuted([area(scores)] * 2, roles, np.random.default_rng(0), 20_000, (1, 2))
    assert found.gaps == pytest.approx(areas(roles))
    assert found.p_values == pytest.approx([(largest >= one - 1e-9).mean() for one in observed], abs=0.03)


def test_positive_control_values_on_many_training_pages() -> None:
    """Ten of sixty members are remembered, those on twenty pages or more: the mean of all hides them."""
    frame = repeated(np.random.default_rng(3), (40, 10, 0, 10), shifts=(0.0, 0.0, 0.0, 4.0))
    found = memory(frame, Budget.shared(4), np.random.default_rng(0))
    assert found.level == "leak"
    assert found.headline is not None
    assert (found.headline.training_pages, found.headline.units) == (20, 10)
    assert next(one for one in found.results if one.name == RATIO).level != "leak"
    assert [(one.pages, one.units) for one in found.repeated] == [("1", 40), ("2 to 4", 10), ("20 or more", 10)]
    assert set(found.repeated[0].values) == {ACC, RATIO, EXPOSURE}
    areas = [one.values[RATIO].value for one in found.repeated]
    assert areas[2] > 0.8 > 0.65 > max(areas[:2])
    finding = present.memory_finding("tax_number", found, {}, "control")
    assert "values on 20 or more training pages is" in finding.text
    assert "for 10 companies against 60 others" in finding.text
    assert "Most at risk are values on 20 or more training pages (10 companies)" in finding.text
    metrics = present.memory_metrics(found, "control", PROVIDER)
    assert [one.n for one in metrics if (one.name, one.slice) == (finding.metric, finding.slice)] == [70]
    table = present.repetition_table(found, PROVIDER)
    assert [row[:2] for row in table.rows] == [["1", 40], ["2 to 4", 10], ["20 or more", 10]]
    assert table.columns[2:] == [ACC, EXPOSURE, RATIO]
    assert all(str(row[4]).endswith("]") for row in table.rows)
    said = plain_sentence("tax number", found, None, PROVIDER)
    assert "by the tax number, where it stands on 20 or more training pages, which of two companies" in said


def test_a_score_that_rises_with_training_pages_has_a_trend() -> None:
    frame = repeated(np.random.default_rng(5), (15, 15, 15, 15), shifts=(0.0, 0.5, 1.0, 1.5))
    found = memory(frame, WHOLE, np.random.default_rng(0)).trend
    assert found is not None
    assert found.correlation > 0.2
    assert found.p_value < 0.02


def test_negative_control_noise_has_neither_group_nor_trend() -> None:
    frame = repeated(np.random.default_rng(6), (30, 10, 10, 10))
    found = memory(frame, WHOLE, np.random.default_rng(0))
    assert found.level in ("none", "unresolved")
    assert found.trend is not None
    assert found.trend.p_value > 0.1
    assert "Most at risk" not in present.memory_finding("email", found, {}, "control").text


def test_answers_are_tested_by_training_pages_where_there_is_no_likelihood() -> None:
    frame = repeated(np.random.default_rng(7), (40, 0, 0, 10))[["page", "unit", "member", "acc", "held"]]
    frame["acc"] = (frame["held"] >= 20).astype(float)
    found = memory(frame, Budget.shared(4), np.random.default_rng(0))
    assert [one.name for one in found.results] == [ACC, f"{ACC} of values on 20 or more training pages"]
    assert (found.level, found.headline) == ("leak", found.results[1])
    shares = [row[2] for row in present.repetition_table(found, PROVIDER).rows]
    assert shares == ["0.0 points", "100.0 points"]  # no resample differs
    assert "where it stands on 20 or more training pages, away." in plain_sentence("email", found, None, PROVIDER)


def test_without_training_pages_nothing_is_told_by_them() -> None:
    found = memory(pages(np.random.default_rng(0)), WHOLE, np.random.default_rng(0))
    assert (found.repeated, found.trend) == ((), None)


def query(number: int, words: str, answer: str = "x", split: str = "blue_train") -> Query:
    page = Document(f"d{number}_1", f"p{number}", tuple(words.split()), np.zeros((0, 4), np.float32), split=split)
    return Query(f"q{number}", page, "?", (answer,), "k")


def test_training_pages_that_hold_a_value_count_once_each() -> None:
    corpus = Corpus(
        (
            query(0, "Tax 91-0837469 and 91-0837469 again"),
            query(1, "Tax 910837469", "91-0837469"),
            query(2, "none here", "91 0837469"),
            query(3, "Tax 91-08374691"),
            query(4, "Tax 91-O837469"),
            query(5, "Tax 91-0837469", split="blue_valid"),
        )
    )
    trained = training_texts(Corpus(()), corpus)
    assert trained is not None
    assert trained.pages_with("91-0837469") == 4
    assert trained.pages_with("unknown value") == 0
    assert trained.pages_with("--") == 0


def test_members_documents_are_the_training_pages_where_the_document_is_the_unit() -> None:
    queries = tuple(query(number, "Acme Ltd", split="red_test") for number in range(4))
    labels = {f"p{number}": Membership.MEMBER if number < 3 else Membership.NON_MEMBER for number in range(4)}
    found = training_texts(Corpus(queries, labels, unit="document"), None)
    assert found is not None
    assert found.pages_with("acme ltd") == 3
    assert training_texts(Corpus(queries, labels), None) is None


def test_a_company_with_several_values_counts_by_the_most_frequent() -> None:
    frame = repeated(np.random.default_rng(6), (30, 10, 10, 10))
    frame.loc[frame.groupby("unit").head(1).index, "held"] = 0
    found = memory(frame, WHOLE, np.random.default_rng(0))
    assert [one.units for one in found.repeated] == [30, 10, 10, 10]

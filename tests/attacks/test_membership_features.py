from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit

from pfl_audit.attacks.membership.features import LARGEST_LOSS, aggregate, memory_features, query_features
from pfl_audit.attacks.membership.rows import G4, ROWS
from pfl_audit.documents.document import Document, Query
from pfl_audit.models.protocol import Response

Page = Callable[..., Document]


@pytest.fixture
def queries(page: Page) -> list[Query]:
    return [
        Query("a1", page(name="a_1", provider="A"), "?", ("right",)),
        Query("a2", page(name="a_1", provider="A"), "?", ("right",)),
        Query("b1", page(name="b_1", provider="B"), "?", ("right",)),
    ]


def test_losses_with_dropout_replace_losses_alone(queries: list[Query]) -> None:
    target = {query.id: Response("right", 0.9, 0.5, 4) for query in queries}
    before = {query.id: Response("x", 0.5, 2.0, 4) for query in queries}
    dropped = {"a1": (0.75, 3.0), "a2": (1.25, 5.0)}
    found = query_features(queries, target, before, (), dropped)
    assert found["loss"].tolist() == [0.75, 1.25]
    assert found["delta_loss"].tolist() == [2.25, 3.75]
    ours = query_features(queries[:2], target, before)
    same = [name for name in found if name not in ("loss", "delta_loss")]
    assert found[same].equals(ours[same])


def test_features_by_hand(queries: list[Query]) -> None:
    target = {
        "a1": Response("right", 0.9, 0.5, 4),
        "a2": Response("righ", 0.7, 1.5, 4),
        "b1": Response("no", 0.2, 3.0, 2),
    }
    before = {"a1": Response("x", 0.5, 2.0, 4), "a2": Response("x", 0.3, 2.0, 4), "b1": Response("x", 0.4, 2.0, 2)}
    table = aggregate(query_features(queries, target, before))
    assert table.drop(columns="residual").loc["A"].to_dict() == pytest.approx(
        {
            "acc": 0.5,
            "nls": 0.9,
            "loss": 1.0,
            "conf": 0.8,
            "delta_loss": 1.0,
            "delta_conf": 0.4,
            "log_odds": (logit(np.exp(-0.5)) + logit(np.exp(-1.5))) / 2,
            "log_odds_before": logit(np.exp(-2)),
            "log_odds_ratio": (logit(np.exp(-0.5)) + logit(np.exp(-1.5))) / 2 - logit(np.exp(-2)),
            "queries": 2,
        }
    )
    assert table.loc["B", "delta_loss"] == pytest.approx(-1.0)
    assert table.loc["B", "log_odds_ratio"] == pytest.approx(logit(np.exp(-3)) - logit(np.exp(-2)))


def test_columns_that_nobody_has_are_not_there(queries: list[Query]) -> None:
    answers = {query.id: Response("right") for query in queries}
    table = aggregate(query_features(queries, answers, None))
    assert set(table.columns) == {"acc", "nls", "queries"}


def test_unanswered_queries_do_not_count(queries: list[Query]) -> None:
    table = aggregate(query_features(queries, {"a1": Response("right", 0.5, 0.5, 1)}, None))
    assert list(table.index) == ["A"]
    assert table.loc["A", "queries"] == 1


def test_memory_features_by_hand(queries: list[Query], page: Page) -> None:
    scrubbed = [replace(queries[0], id="s1"), replace(queries[2], id="s2")]
    known = {"s1": Response("right"), "s2": Response("wrong one")}
    pairs = [
        (Query("a-before", queries[0].document, "", ("",)), Query("a-after", queries[0].document, "", ("",))),
        (Query("b-before", queries[2].document, "", ("",)), Query("b-after", queries[2].document, "", ("",))),
    ]
    said = {
        "a-before": Response("total"),
        "a-after": Response("total"),
        "b-before": Response("total"),
        "b-after": Response("xxxxx"),
    }
    memory = memory_features(scrubbed, known, pairs, said)
    answers = {query.id: Response("right", 1.0, 0.0, 1) for query in queries}
    table = aggregate(query_features(queries, answers, None), memory)
    assert table.loc["A", ["nls_mem", "delta_nls_mem"]].tolist() == [1.0, 0.0]
    assert table.loc["B", ["nls_mem", "delta_nls_mem"]].tolist() == [0.0, 1.0]


def test_a_provider_without_a_testable_page_has_nothing_memorised(queries: list[Query]) -> None:
    memory = memory_features([replace(queries[0], id="s1")], {"s1": Response("right")}, [], {})
    answers = {query.id: Response("right", 1.0, 0.0, 1) for query in queries}
    table = aggregate(query_features(queries, answers, None), memory)
    assert table.loc["B", "nls_mem"] == 0.0
    assert np.isfinite(table["delta_nls_mem"]).all()


def test_losses_that_are_infinite_or_missing_are_defined(queries: list[Query]) -> None:
    target = {
        "a1": Response("right", 0.9, float("inf"), 2),
        "a2": Response("right", 0.9, float("nan"), 2),
        "b1": Response("no", 0.2, None, 2),
    }
    table = aggregate(query_features(queries, target, None))
    assert table.loc["A", ["loss", "log_odds"]].tolist() == pytest.approx([LARGEST_LOSS, -LARGEST_LOSS])
    assert table.loc["B", "loss"] == table.loc["A", "loss"]  # the median of those that have one


def test_an_empty_answer_to_no_question_is_no_memory(queries: list[Query]) -> None:
    pairs = [
        (Query(f"{at}-before", query.document, "", ("",)), Query(f"{at}-after", query.document, "", ("",)))
        for at, query in enumerate((queries[0], queries[2]))
    ]
    said = {
        "0-before": Response(" "), "0-after": Response(""),
        "1-before": Response("total"), "1-after": Response("other"),
    }  # fmt: skip
    memory = memory_features([], {}, pairs, said)
    assert list(memory["unit"]) == ["B"]


def test_the_rows_of_table_4_decide_by_the_papers_groups() -> None:
    """Section 5.2.2: G1 for AZK, G1 to G3 for APK, G4 beside either."""
    found = {row.id: row.features for row in ROWS}
    answers, model, changes, memory = ("acc", "nls"), ("loss", "conf"), ("delta_loss", "delta_conf"), G4
    assert found["azk"] == found["azk-vote"] == answers
    assert found["azk-g4"] == answers + memory
    assert found["apk"] == found["apk-vote"] == answers + model + changes
    assert found["apk-g4"] == answers + model + changes + memory

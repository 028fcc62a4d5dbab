"""Extractable memorization: what the target gives without the evidence, and a control does not."""

import numpy as np
import pandas as pd

from pfl_audit.attacks.memorization.extraction import (
    PARAPHRASES,
    blank_hits,
    blank_questions,
    extracted,
    kept,
    paraphrases,
    shares,
)
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.keys import key_of_question, templates


def table() -> pd.DataFrame:
    rows = [
        ("a_1", "a", True, 1.0, 0.0),
        ("b_1", "b", True, 1.0, 1.0),
        ("c_1", "c", True, 0.0, 0.0),
        ("d_1", "d", True, 1.0, np.nan),
        ("e_1", "e", False, 1.0, 0.0),
    ]
    return pd.DataFrame(rows, columns=["page", "unit", "member", "acc", "acc_control"])


def test_what_the_control_gives_too_is_simplicity() -> None:
    frame = table()
    found = shares(frame[frame["member"]], np.random.default_rng(0))
    assert found is not None
    extractable, simplicity, items = found
    assert (extractable.value, simplicity.value) == (1 / 3, 1 / 3)
    assert items == [("a_1", "a"), ("b_1", "b"), ("c_1", "c")]
    assert extractable.low < 1 / 3 < extractable.high
    assert extracted(frame) == {"a_1"}
    assert shares(frame[frame["page"] == "d_1"], np.random.default_rng(0)) is None


def question(number: int, provider: str, value: str) -> Query:
    page = Document(f"p{number}_1", provider, ("a",), np.zeros((1, 4), np.float32))
    return Query(f"q{number}", page, templates("provider_email")[number % 20], (value,), "provider_email")


def test_other_words_are_two_other_templates_of_the_key() -> None:
    queries = [question(number, f"c{number}", f"mail{number}") for number in range(80)]
    asked = paraphrases(queries, {query.document.id for query in queries}, most=30)
    assert len(asked) == 30 * PARAPHRASES
    assert len({query.id for query in asked}) == len(asked)
    first = {query.document.id: query.question for query in queries}
    for query in asked:
        assert query.question != first[query.document.id]
        assert key_of_question(query.question) == "provider_email"
    assert paraphrases(queries, set()) == []
    answers = {query.id: query.answers[0] for query in asked}
    assert kept(asked, answers)["kept"].mean() == 1.0
    answers[asked[0].id] = "?"
    assert kept(asked, answers)["kept"].sum() == 29.0  # it must come out both times


def test_a_blank_page_is_asked_each_wording_once() -> None:
    queries = [question(number, f"c{number}", "mail@c3") for number in range(40)]
    blank = blank_questions(queries)
    assert len(blank) == 20
    assert all(not query.document.words and query.document.image is None for query in blank.values())
    said = {queries[3].question: "Mail@C3"}
    members = {f"c{number}": number < 20 for number in range(40)}
    assert blank_hits(queries, said, {}, members) == {"c3"}
    assert blank_hits(queries, said, said, members) == set()

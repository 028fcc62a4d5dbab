"""Memory of one key at the level of scores: nulls, power, the responses of a real model, and what is missing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from pfl_audit.attacks.memorization import present
from pfl_audit.attacks.memorization.exposure import draw_candidates, exposure, exposures
from pfl_audit.attacks.memorization.measures import ACC, ANLS, EXPOSURE, RATIO, Memory, Result, memory
from pfl_audit.attacks.memorization.scores import beside, pages_table
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.document import Document, Query
from pfl_audit.models.protocol import Response, Score

from .memorization_case import candidates, load
from .simulated_answers import pages

CASES = Path(__file__).parents[1] / "data/memorization"
WHOLE = Budget.shared(1)


def result(found: Memory, name: str) -> Result:
    return next(one for one in found.results if one.name == name)


@pytest.mark.parametrize(("members", "others"), [(20, 20), (10, 90), (90, 10)])
def test_negative_control_each_member_has_twins_among_the_others(members: int, others: int) -> None:
    """Providers of heavy-tailed sizes, ties, unequal classes; ``tests.bench.rates`` counts the alarms of noise."""
    few = min(members, others)
    drawn = pages(np.random.default_rng(11), few, 0)
    copies = [(True, at) for at in range(members // few)] + [(False, at) for at in range(others // few)]
    frame = pd.concat(
        [drawn.assign(member=member, unit=drawn["unit"] + f"-{member}-{at}", page=drawn["page"] + f"-{member}-{at}")
         for member, at in copies]
    )  # fmt: skip
    found = memory(frame, WHOLE, np.random.default_rng(0))
    assert found.level in ("none", "unresolved")
    assert min(one.p_value for one in found.results) > 0.2


def test_permutation_and_interval_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each alone says no: a p value of 1, or a bound below chance, is no finding."""
    from pfl_audit.attacks.memorization import measures

    frame = pages(np.random.default_rng(0), 60, 60, more=0.6, shift=2.0)
    assert memory(frame, WHOLE, np.random.default_rng(0)).level == "leak"
    true = measures.permuted
    with monkeypatch.context() as patch:
        patch.setattr(
            measures,
            "permuted",
            lambda *args: replace(found := true(*args), p_values=np.ones_like(found.p_values)),
        )
        assert memory(frame, WHOLE, np.random.default_rng(0)).level in ("none", "unresolved")
    alone = frame[["page", "unit", "member", "clues", "acc"]]
    assert memory(alone, WHOLE, np.random.default_rng(0)).level == "leak"
    below = measures.Estimate(0.5, -1.0, 1.0, np.full(9, -1.0))
    with monkeypatch.context() as patch:
        patch.setattr(measures, "resampled", lambda *args: below)
        assert memory(alone, WHOLE, np.random.default_rng(0)).level in ("none", "unresolved")


def test_a_gap_that_the_control_has_too_is_no_leak() -> None:
    frame = pages(np.random.default_rng(1), 60, 60, more=0.6)
    alone = frame[["page", "unit", "member", "clues", "acc", "anls"]]
    assert memory(alone, WHOLE, np.random.default_rng(0)).level == "leak"
    guessed = alone.assign(acc_control=alone["acc"], anls_control=alone["anls"])
    found = memory(guessed, WHOLE, np.random.default_rng(0))
    assert found.level in ("none", "unresolved")
    assert result(found, ACC).over_control is not None
    assert result(found, ACC).over_control.value == 0.0  # type: ignore[union-attr]


def test_values_that_the_control_finds_likelier_too_are_no_leak() -> None:
    """The target doubles what the control sees in the values: its ratio orders the classes no better than that."""
    frame = pages(np.random.default_rng(2), 80, 80, known=0.0, heavy=False)
    easy = frame["member"] * 2.0 + np.random.default_rng(3).normal(size=len(frame)) * 0.5
    frame = frame.assign(loss_control=5.0 - easy, loss=5.0 - 2 * easy, ratio=easy)
    found = result(memory(frame, WHOLE, np.random.default_rng(0)), RATIO)
    assert found.value.value > 0.9
    assert found.p_value < 0.001
    assert found.level == "none"


def test_no_hit_at_all_does_not_mean_that_any_hit_would_have_been_found() -> None:
    """Forty members: the least number of hits that is significant at 0.01, by the hypergeometric distribution."""
    frame = pages(np.random.default_rng(0), 40, 40, known=0.0, heavy=False)[["page", "unit", "member", "acc"]]
    smallest = result(memory(frame, Budget(0.005, 0.01), np.random.default_rng(0)), ACC).smallest
    assert smallest is not None
    hits = next(k for k in range(40) if 0.5**k <= 0.02)
    assert binom.sf(hits - 1, 40, smallest) >= 0.5
    assert smallest >= hits / 40


def test_no_evidence_with_too_few_companies_is_unresolved() -> None:
    columns = ["page", "unit", "member", "clues", "acc"]
    few = memory(pages(np.random.default_rng(0), 20, 20, known=0.0)[columns], WHOLE, np.random.default_rng(0))
    assert few.level == "unresolved"
    frame = pages(np.random.default_rng(0), 150, 150, known=0.0, heavy=False)
    many = memory(frame[columns], WHOLE, np.random.default_rng(0))
    assert many.level == "none"
    finding = present.memory_finding("provider_email", many, {}, "pre-trained")
    assert finding.smallest_effect == result(many, ACC).smallest
    assert "Four of five such audits would have found an ACC gap of" in finding.text
    finding = present.memory_finding("provider_email", few, {}, "pre-trained")
    assert finding.level == "unresolved"


def case(key: str) -> pd.DataFrame:
    """Responses of the first demo models to scrubbed pages of RED."""
    rows, queries, said = load(CASES / f"{key}.jsonl")
    members = {str(row["provider"]): bool(row["member"]) for row in rows}
    clues = {query.id: int(bool(row["clue"])) for query, row in zip(queries, rows, strict=True)}
    target, before = (
        pages_table(queries, members, said[name], clues, exposures(*candidates(rows, queries, name)))
        for name in ("target", "pre-trained")
    )
    return beside(target, before)


def test_an_email_that_never_comes_out_as_an_answer_is_found() -> None:
    """Not one answer is right, and the likelihood ratio gives the companies away all the same."""
    frame = case("provider_email")
    whole = memory(frame, Budget.shared(12), np.random.default_rng(0))
    assert frame["acc"].sum() == 0
    assert (whole.level, whole.headline and whole.headline.name) == ("leak", RATIO)
    assert result(whole, RATIO).value.value == pytest.approx(0.742, abs=0.002)
    assert result(whole, RATIO).p_value <= 1 / 401
    assert result(whole, ACC).level != "leak"
    clean = memory(frame[frame["clues"] == 0], Budget.shared(5), np.random.default_rng(0))
    assert (clean.level, clean.headline and clean.headline.name) == ("leak", RATIO)
    finding = present.memory_finding("provider_email", clean, {}, "pre-trained")
    assert finding.level == "leak"
    assert "whether or not the value comes out" in finding.text


def test_names_are_found_by_every_measure() -> None:
    found = memory(case("provider_name"), Budget.shared(12), np.random.default_rng(0))
    assert {one.name: one.level for one in found.results} == dict.fromkeys((ACC, ANLS, RATIO, EXPOSURE), "leak")
    assert found.headline is not None
    assert found.headline.name == RATIO
    assert result(found, EXPOSURE).value.value > 1.5


def test_a_model_that_is_its_own_control_remembers_nothing() -> None:
    frame = case("provider_name")
    target = frame[["page", "unit", "member", "clues", "acc", "anls", "conf", "loss", "exposure"]]
    found = memory(beside(target, target), Budget.shared(12), np.random.default_rng(0))
    assert found.level in ("none", "unresolved")
    assert RATIO not in {one.name for one in found.results}


def query(number: int, provider: str, value: str) -> Query:
    return Query(f"q{number}", Document(f"d{number}_1", provider, (), np.zeros((0, 4), np.float32)), "?", (value,), "k")


def test_losses_that_are_missing_or_infinite_leave_the_page_to_its_answer() -> None:
    queries = [query(number, f"p{number}", "value") for number in range(4)]
    said = {
        "q0": Response("value", 0.5, float("inf"), 3),
        "q1": Response("value", 0.5, float("nan"), 3),
        "q2": Response("", None, None, None),
        "q3": Response("", 0.1, 2.0, 3),
    }
    table = pages_table(queries, {f"p{number}": number < 2 for number in range(4)}, said, {}, {})
    assert table["acc"].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert table["anls"].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert np.isnan(table["loss"]).tolist() == [True, True, True, False]
    both = beside(table, table.assign(loss=3.0))
    assert np.isnan(both["ratio"]).tolist() == [True, True, True, False]
    assert {one.name for one in memory(both, WHOLE, np.random.default_rng(0)).results} == {ACC, ANLS}


def test_huge_losses_count_as_ranks() -> None:
    frame = pages(np.random.default_rng(4), 60, 60, known=0.0, shift=2.0, heavy=False)
    frame.loc[frame.index[0], ["loss", "ratio"]] = (1e30, 3.0 - 1e30)
    found = result(memory(frame, WHOLE, np.random.default_rng(0)), RATIO)
    assert found.level == "leak"
    assert np.isfinite(found.value.value)


def test_empty_answers_are_no_memory() -> None:
    """An answer of nothing is right of no page, not even of one whose value is nothing."""
    queries = [query(number, f"p{number}", "") for number in range(80)]
    table = pages_table(queries, {f"p{n}": n < 40 for n in range(80)}, {q.id: Response("") for q in queries}, {}, {})
    found = memory(table, WHOLE, np.random.default_rng(0))
    assert found.level in ("none", "unresolved")
    assert table[["acc", "anls"]].to_numpy().max() == 0.0


def test_exposure_by_hand() -> None:
    assert exposure(np.array([1.0, 2, 3, 4])) == 2.0
    assert exposure(np.array([4.0, 1, 2, 3])) == 0.0
    assert exposure(np.array([2.0, 1, 2, 3])) == pytest.approx(2 - np.log2(2.5))  # a tie shares its ranks


def test_candidates_are_one_page_a_provider_without_clues_and_values_of_others() -> None:
    queries = [query(number, f"p{number // 2}", f"value {number // 2}") for number in range(60)]
    drawn = draw_candidates(queries, {f"q{number}" for number in range(0, 60, 2)}, np.random.default_rng(0))
    assert [one.document.provider for one in drawn] == sorted({f"p{number}" for number in range(30)})
    for one, values in drawn.items():
        assert int(one.id[1:]) % 2 == 1
        assert values[0] == one.answers[0]
        assert len(set(values)) == len(values) == 16
    first = next(iter(drawn)).id
    scores = {one.id: [Score(1.0, 2), *[Score(2.0, 2)] * 15] for one in drawn}
    scores[first][3] = Score(float("inf"), 2)
    found = exposures(drawn, scores)
    assert first not in found
    assert set(found.values()) == {4.0}

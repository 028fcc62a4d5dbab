"""Whole verdicts on provider membership, at the level of scores."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from pfl_audit.attacks.membership.basis import Basis, Reading, _least_competent
from pfl_audit.attacks.membership.decision import Decision, decide_membership
from pfl_audit.attacks.membership.present_decision import access_table, finding, metrics
from pfl_audit.attacks.membership.rows import ROWS, AttackRow
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.units import PROVIDER
from tests.arrangements import arrangements, exact

from .noise_audits import CASES, decide, judge
from .simulated import table

QUICK = tuple(row for row in ROWS if row.id in ("azk", "likelihood-ratio", "loss-residual"))
"""Attacks without a forest, which takes most of the time."""


def one_row(name: str) -> tuple[AttackRow, ...]:
    return tuple(row for row in ROWS if row.id == name)


@contextmanager
def nobody_known() -> Iterator[None]:
    """All units are attacked."""
    with patch("pfl_audit.attacks.membership.classifiers.draw_known", lambda *_: np.empty(0, dtype=np.int64)):
        yield


def leaking(size: int = 80, leak: float = 2.0, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame, labels = table(size, size, rng, leak=leak)
    control, _ = table(size, size, rng)
    return frame, control.set_axis(frame.index).assign(queries=frame["queries"].to_numpy()), labels


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_positive_control_every_attack_alone_finds_a_plain_leak(row: AttackRow) -> None:
    frame, control, labels = leaking()
    assert decide(frame, control, labels, 0, rows=(row,), budget=Budget.shared(9)).level == "leak"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_model_that_says_nothing_is_no_leak_where_the_classes_differ_in_size(row: AttackRow) -> None:
    frame, labels = table(40, 120, np.random.default_rng(6))
    for column in row.columns:
        frame[column] = 0.0
    assert decide(frame, None, labels, 0, rows=(row,)).level == "none"


def twins(frame: pd.DataFrame, labels: np.ndarray) -> pd.DataFrame:
    """Features of members, given to as many others each as there are for one: nothing tells the classes apart."""
    members, others = np.flatnonzero(labels), np.flatnonzero(~labels)
    rows = np.arange(len(labels))
    rows[others] = np.resize(members, len(others))
    return frame.iloc[rows].set_axis(frame.index)


@pytest.mark.parametrize("case", ["equal", "unequal", "ties", "correlated", "heavy"])
def test_negative_control_each_member_has_a_twin_among_the_others(case: str) -> None:
    """``tests.bench.rates`` counts the false alarms of noise."""
    frame, control, labels = CASES[case](np.random.default_rng(11))
    control = None if control is None else twins(control, labels)
    decision = decide(twins(frame, labels), control, labels, 0, rows=QUICK, seeds=1)
    assert decision.level in ("none", "unresolved")
    assert decision.strongest.p_value > 0.2


def test_what_the_control_shows_as_well_is_no_leak() -> None:
    """Members' pages are easier for every model: each attack is far above chance, and none of it is a leak."""
    frame, control, labels = CASES["unlike"](np.random.default_rng(0))
    rows = (*one_row("azk"), *one_row("likelihood-ratio"))
    decision = decide(frame, control, labels, 0, rows=rows)
    assert decision.strongest.found.low > 0.55
    assert decision.strongest.p_value > 0.1
    assert decision.level in ("none", "unresolved")
    # Without the control, by a declaration that is wrong, it would have been one.
    assert decide(frame, None, labels, 0, rows=rows).level == "leak"


def told_by_documents(labels: np.ndarray, seed: int) -> np.ndarray:
    return (labels + 0.5 * np.random.default_rng(seed).normal(size=len(labels)))[:, None]


def test_what_the_documents_explain_is_no_leak() -> None:
    """Members' pages are easier, the control is noise, and a feature of the documents shows which are easy."""
    rng = np.random.default_rng(1)
    frame, labels = table(80, 80, rng)
    easy = rng.normal(size=len(labels)) + labels
    frame["log_odds_ratio"] += 2 * easy
    control, _ = table(80, 80, rng)
    control = control.set_axis(frame.index).assign(queries=frame["queries"].to_numpy())
    blind, seen = (
        decide(frame, control, labels, 0, rows=one_row("likelihood-ratio"), documents=documents)
        for documents in (None, easy[:, None])
    )
    assert blind.level == "leak"
    assert seen.strongest.p_value > 0.05


def test_documents_that_separate_the_classes_leave_nothing_to_say() -> None:
    frame, control, labels = leaking()
    apart = labels[:, None] + 0.01 * np.random.default_rng(2).normal(size=(len(labels), 1))
    decision, basis = judge(frame, control, labels, 0, rows=QUICK, documents=apart)
    assert decision.level == "unresolved"
    assert "documents alone separate the classes" in finding(decision, basis, "x").text


@pytest.mark.parametrize(
    ("reads", "said"),
    [(0.05, "worse than the model: ANLS 5 % against 100 %, and at least 75 % of it"), (2.0, "at most 130 % of it")],
)
def test_a_control_that_reads_otherwise_than_the_model_is_none(reads: float, said: str) -> None:
    """Whatever the attack finds, and though the control was given."""
    frame, control, labels = leaking()
    decision, basis = judge(frame, control, labels, 0, rows=QUICK, reads=reads)
    assert decision.level == "unresolved"
    assert said in finding(decision, basis, "x").text
    assert decide(frame, control, labels, 0, rows=QUICK).level == "leak"


def test_too_few_questions_about_non_members_set_aside_tell_nothing_of_a_control() -> None:
    frame, control, labels = leaking()
    found, basis = judge(frame, control, labels, 0, rows=one_row("azk"))
    assert found.level == "leak"
    basis = replace(basis, readings={"control": Reading("the control", 1.0, 1.0, 29, 3)})
    one = found.strongest
    assert one.control is not None
    rng = np.random.default_rng(0)
    decision = decide_membership([one.outcome], {"azk": one.control}, basis, Budget.shared(1), rng)
    assert decision.level == "unresolved"
    assert "29 questions about 3 non-member providers that are not attacked do not tell how well the control reads" in (
        finding(decision, basis, "x").text
    )


def test_a_declaration_that_the_documents_contradict_is_not_believed() -> None:
    frame, _, labels = leaking()
    with patch("tests.attacks.noise_audits.PERMUTATIONS", 1999):
        decision, basis = judge(frame, None, labels, 0, rows=QUICK, documents=told_by_documents(labels, 2))
    assert decision.level == "unresolved"
    assert "contradict" in finding(decision, basis, "x").text


def groups_of(labels: np.ndarray, size: int) -> list[str]:
    """Groups of a size, each wholly in one class."""
    place = np.empty(len(labels), dtype=int)
    for value in (True, False):
        place[labels == value] = np.arange((labels == value).sum())
    return [f"{label}-{at // size}" for label, at in zip(labels, place, strict=True)]


def test_companies_of_one_group_count_once() -> None:
    """Difficulty goes by group, and two groups of each class have six arrangements, five of each have 252."""
    rng = np.random.default_rng(4)
    frame, labels = table(60, 60, rng)
    levels = {}
    for size in (30, 6):
        groups = groups_of(labels, size)
        hard = dict(zip(sorted(set(groups)), rng.normal(size=120), strict=False))
        frame["log_odds_ratio"] = [4 * hard[group] for group in groups] + rng.normal(size=120)
        decision, basis = judge(
            frame, None, labels, 0, rows=one_row("likelihood-ratio"), groups=groups, declared="groups"
        )
        levels[size] = decision.level, finding(decision, basis, "x").text
    assert levels[30][0] == "unresolved"
    assert "6 arrangements" in levels[30][1]
    assert levels[6][0] != "leak"


def test_by_all_arrangements_the_level_is_that_which_is_promised() -> None:
    """Of all 924 labellings of one set of scores at most 5 % are a leak."""
    rng = np.random.default_rng(8)
    frame, _ = table(6, 6, rng)
    control, _ = table(6, 6, rng)
    control = control.set_axis(frame.index).assign(queries=frame["queries"].to_numpy())
    row = one_row("likelihood-ratio")
    every = arrangements()
    with exact(), patch("pfl_audit.attacks.membership.decision.enough", lambda labels: True), nobody_known():
        found = [decide(frame, control, labels, 0, rows=row, seeds=1).strongest.p_value for labels in every[::7]]
    assert np.mean(np.array(found) <= 0.05) <= 0.05 + 2 / len(found)
    assert min(found) < 0.02


def test_attacks_that_were_not_named_beforehand_cost_and_decide_nothing() -> None:
    frame, control, labels = leaking(leak=0.5)
    named = tuple(row for row in ROWS if row.decides and row.access == "ZK")
    alone = decide(frame, control, labels, 0, rows=named)
    among = decide(frame, control, labels, 0, rows=tuple(row for row in ROWS if row.access == "ZK"))
    assert among.strongest.p_value == alone.strongest.p_value
    assert among.critical == alone.critical
    assert {one.row.id for one in among.untested} == {"azk", "azk-g4", "forest-g1", "azk-vote"}


def test_further_named_attacks_raise_what_one_must_reach() -> None:
    frame, control, labels = leaking()
    decision = decide(frame, control, labels, 0, rows=tuple(row for row in ROWS if row.decides))
    assert decision.critical[1] > decision.critical[0] > 1.6


def test_a_model_that_is_its_own_control_is_no_leak() -> None:
    frame, _, labels = leaking()
    assert decide(frame, frame, labels, 0, rows=QUICK).level in ("none", "unresolved")


def test_an_attack_that_the_control_has_no_score_of_concludes_nothing() -> None:
    """As of tokens, which a control with another tokenizer has not, or of the proxy of a model."""
    frame, control, labels = leaking()
    found, basis = judge(frame, control, labels, 0, rows=one_row("likelihood-ratio"))
    assert found.level == "leak"
    decision = decide_membership([found.strongest.outcome], {}, basis, Budget.shared(1), np.random.default_rng(0))
    assert decision.level == "unresolved"
    assert "no score of the control" in finding(decision, basis, "x").text


def test_of_several_reference_models_the_one_that_reads_otherwise_counts() -> None:
    """The first is as competent as the model, the second reads twice as well."""
    equal, better, worse = (Reading("a reference model", 0.5, reads, 100, 9) for reads in (0.5, 1.0, 0.1))
    for other, said in ((better, "reads these pages better"), (worse, "reads these pages worse")):
        assert said in str(_least_competent([equal, other], PROVIDER).refusal(PROVIDER))
    assert _least_competent([equal, equal], PROVIDER).refusal(PROVIDER) is None
    assert "model under audit reads nothing" in str(Reading("the control", 0.0, 0.0, 100, 9).refusal(PROVIDER))


def test_without_a_control_or_a_declaration_nothing_is_said() -> None:
    frame, control, labels = leaking()
    _, basis = judge(frame, control, labels, 0, rows=QUICK)
    alone = replace(basis, subtracted=None, readings={})
    assert alone.refusal(None) is not None
    assert "--control" in (alone.refusal("pre-trained") or "")
    assert "declares" in finding(*judge(frame, None, labels, 0, rows=QUICK), "x").text


def test_a_known_provider_is_not_counted_among_the_attacked() -> None:
    """Twenty-two of each class, of which three are known: too few are left."""
    frame, control, labels = leaking(22, leak=5.0)
    few, basis = judge(frame, control, labels, 0, rows=one_row("azk"))
    assert few.level == "unresolved"
    said = finding(few, basis, "x").text
    assert "20 attacked" in said
    assert "questions each" not in said  # with s = 0 every unit is attacked
    frame, control, labels = leaking(24, leak=5.0)
    assert decide(frame, control, labels, 0, rows=one_row("azk")).level == "leak"


def test_no_evidence_is_said_only_where_an_attack_that_matters_would_have_been_found() -> None:
    def of(size: int) -> tuple[Decision, Basis]:
        frame, control, labels = leaking(size, leak=0.0, seed=5)
        return judge(frame, control, labels, 0, rows=one_row("azk"), budget=Budget.shared(9))

    (small, basis), (large, _) = of(30), of(300)
    assert (small.level, large.level) == ("unresolved", "none")
    assert small.strongest.smallest > 0.7 > large.strongest.smallest > 0.55
    said = finding(small, basis, "x")
    assert said.smallest_effect == small.strongest.smallest
    needed = f"an attack needs an AUC of {100 * small.strongest.smallest:.1f} % to be found in four of five such audits"
    assert f"{needed}, more than the 70 % allowed." in said.text


def test_results_name_the_strongest_attack_its_control_and_every_attack() -> None:
    frame, control, labels = leaking()
    decision, basis = judge(frame, control, labels, 0, rows=QUICK)
    said = finding(decision, basis, "a model that saw neither class")
    row = decision.strongest.outcome.row
    assert row.title in said.text
    assert "ANLS is 100 %, the model's 100 %" in said.text
    assert "draws of known providers); in the first draw, which is tested, AUC of the score less that of" in said.text
    assert "by a permutation test of the providers' labels, adjusted for 3 attacks" in said.text
    assert said.text.count("This takes for granted that, apart from training, model and control differ alike") == 1
    named = {(metric.name, metric.slice["model"]) for metric in metrics(decision, "control", PROVIDER)}
    assert (said.metric, said.slice["model"]) in named
    assert ("tested AUC", "target, compared") in named
    table_ = access_table(decision, {row.id: decision.strongest.outcome}, {}, np.array([True, False]), PROVIDER)
    assert {line[1] for line in table_.rows} == {each.title for each in QUICK}
    assert [line[1] for line in table_.rows if line[5] is not None] == [row.title]

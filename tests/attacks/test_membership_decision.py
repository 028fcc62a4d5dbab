"""Whole verdicts on provider membership, at the level of scores."""

import numpy as np
import pandas as pd
import pytest

from pfl_audit.attacks.membership.decision import Decision
from pfl_audit.attacks.membership.present_decision import access_table, finding, metrics
from pfl_audit.attacks.membership.rows import ROWS, AttackRow
from pfl_audit.core.verdict import COMPARED, Budget
from pfl_audit.documents.units import PROVIDER

from .noise_audits import CASES, decide
from .simulated import table

QUICK = tuple(row for row in ROWS if row.id in ("azk", "likelihood-ratio", "loss-residual"))
"""Attacks without a forest, which takes most of the time."""


def one_row(name: str) -> tuple[AttackRow, ...]:
    return tuple(row for row in ROWS if row.id == name)


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
    decision = decide(twins(frame, labels), control, labels, 0, rows=QUICK, seeds=1, s=(0,))
    assert decision.level in ("none", "unresolved")
    assert decision.strongest.p_value > 0.2


def test_what_the_control_shows_as_well_is_no_leak() -> None:
    """Members' pages are easier for every model: each attack is far above chance, and none of it is a leak."""
    frame, control, labels = CASES["unlike"](np.random.default_rng(0))
    rows = (*one_row("azk"), *one_row("likelihood-ratio"))
    decision = decide(frame, control, labels, 0, rows=rows)
    assert decision.strongest.found.low > 0.6
    assert max(one.p_value for found in decision.by_access.values() for one in found) < 0.01
    assert decision.level == "unresolved"
    # Without the control it would have been one.
    assert decide(frame, None, labels, 0, rows=rows).level == "leak"


def test_what_the_documents_alone_show_is_no_leak() -> None:
    frame, labels = table(80, 80, np.random.default_rng(1), leak=1.5)
    told = labels + 0.5 * np.random.default_rng(2).normal(size=len(labels))
    noise = np.random.default_rng(2).normal(size=len(labels))
    levels = [decide(frame, None, labels, 0, rows=QUICK, blind=scores).level for scores in (told, noise)]
    assert levels == ["unresolved", "leak"]


def test_bounds_hold_for_all_attacks_at_once() -> None:
    frame, control, labels = leaking(leak=0.5)
    alone, together = (
        decide(frame, control, labels, 0, rows=rows, seeds=1, s=(0,)) for rows in (one_row("azk"), ROWS[:3])
    )
    bounds = [
        one.beside["control"].bound(COMPARED)
        for decision in (alone, together)
        for one in decision.by_access["ZK"]
        if one.outcome.row.id == "azk"
    ]
    assert bounds[1] < bounds[0]


def test_every_level_of_access_costs_its_share() -> None:
    """Four thousand permutations reach neither attack: the smallest p there is, and twice that where two levels are."""
    frame, control, labels = leaking()
    rows = (*one_row("azk"), *one_row("likelihood-ratio"))
    one, two = (decide(frame, control, labels, 0, rows=some, s=(0,)).strongest.p_value for some in (rows[:1], rows))
    assert (one, two) == pytest.approx((1 / 4001, 2 / 4001))


def test_a_model_that_is_its_own_control_is_no_leak() -> None:
    """It is not cleared either: what tells the classes apart in both leaves no room for a leak to show."""
    frame, _, labels = leaking()
    assert decide(frame, frame, labels, 0, rows=QUICK).level == "unresolved"


def test_without_a_control_or_a_declaration_it_is_a_weak_sign_at_most() -> None:
    frame, _, labels = leaking()
    decision = decide(frame, None, labels, 0, rows=QUICK, trusted=False)
    assert decision.level == "weak"
    assert "--control" in finding(decision, None, PROVIDER, trusted=False).text
    assert "declares" in finding(decision, None, PROVIDER, trusted=True).text


def test_a_known_provider_is_not_counted_among_the_attacked() -> None:
    """Twenty-two of each class, of which three are known: too few are left."""
    frame, control, labels = leaking(22, leak=5.0)
    few = decide(frame, control, labels, 0, rows=one_row("azk"), s=(0,))
    assert few.level == "unresolved"
    said = finding(few, None, PROVIDER, trusted=True).text
    assert "20 attacked" in said
    assert "questions each" not in said  # with s = 0 every unit is attacked
    frame, control, labels = leaking(24, leak=5.0)
    assert decide(frame, control, labels, 0, rows=one_row("azk"), s=(0,)).level == "leak"


def test_no_evidence_is_said_only_where_an_attack_that_matters_would_have_been_found() -> None:
    def of(size: int) -> Decision:
        frame, control, labels = leaking(size, leak=0.0, seed=5)
        return decide(frame, control, labels, 0, rows=one_row("azk"), budget=Budget.shared(9), s=(0,))

    small, large = of(30), of(300)
    assert (small.level, large.level) == ("unresolved", "none")
    assert small.strongest.smallest > 0.7 > large.strongest.smallest > 0.55
    assert "beyond chance and the control (" in finding(large, "x", PROVIDER, trusted=True).text  # and nothing else
    said = finding(small, None, PROVIDER, trusted=True)
    assert said.smallest_effect == small.strongest.smallest
    assert f"{100 * small.strongest.smallest:.0f} %" in said.text


def test_results_name_the_strongest_attack_its_control_and_every_attack() -> None:
    frame, control, labels = leaking()
    told = np.random.default_rng(2).normal(size=len(labels))
    decision = decide(frame, control, labels, 0, rows=QUICK, blind=told)
    said = finding(decision, "a model that saw neither class", PROVIDER, trusted=True)
    row = decision.strongest.outcome.row
    assert row.title in said.text
    named = {(metric.name, metric.slice["model"]) for metric in metrics(decision, "control", PROVIDER)}
    assert (said.metric, said.slice["model"]) in named
    assert {"control", "documents alone", "target minus control", "target minus documents alone"} <= {
        model for _, model in named
    }
    table_ = access_table(decision, {}, np.array([True, False]), PROVIDER)
    assert {line[1] for line in table_.rows} == {each.title for each in QUICK}
    assert all(cell is not None for line in table_.rows for cell in line[3:7])

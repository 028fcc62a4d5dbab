import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from pfl_audit.attacks.membership import present
from pfl_audit.attacks.membership.evaluation import evaluate, subset
from pfl_audit.attacks.membership.rows import ABLATION, ROWS, AttackRow

from pfl_audit.audit.verdict import ALPHA

from .simulated import table

SEEDS = range(5)
ROOT = Path(__file__).parents[2]


def outcome_of(row: AttackRow, seed: int, leak: float, s: int = 5, size: int = 80):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    frame, labels = table(size, size, rng, leak=leak)
    return evaluate(row, frame, labels, s, seeds=SEEDS, share=0.15, rng=rng)


@pytest.mark.parametrize("row", [*ROWS, *ABLATION], ids=lambda row: row.id)
def test_positive_control_every_attack_finds_a_plain_leak(row: AttackRow) -> None:
    found = present.finding([outcome_of(row, 0, leak=2.0)], ALPHA / len(ROWS))
    assert found.level == "leak"


def test_negative_control_noise_is_a_leak_in_at_most_five_of_a_hundred_audits() -> None:
    """All eight attacks on features of pure noise, 200 audits, two draws of known providers each."""
    command = [sys.executable, "-m", "tests.attacks.noise_audits"]
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "text": True, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
    halves = [
        subprocess.Popen([*command, first, last, "2"], **options) for first, last in (("0", "100"), ("100", "200"))
    ]
    alarms = [int(half.communicate()[0]) for half in halves]
    assert sum(alarms) <= 10


def test_result_does_not_depend_on_the_order_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    frame, labels = table(40, 40, rng, leak=0.5)
    order = rng.permutation(len(frame))
    for row in ROWS:
        run = partial(evaluate, row, s=5, seeds=SEEDS, share=0.15)
        a = run(table=frame, labels=labels, rng=np.random.default_rng(1))
        b = run(table=frame.iloc[order], labels=labels[order], rng=np.random.default_rng(1))
        assert {k: (v.value, v.low, v.high) for k, v in a.estimates.items()} == {
            k: (v.value, v.low, v.high) for k, v in b.estimates.items()
        }


def test_labels_of_the_attacked_are_used_for_nothing_but_the_score() -> None:
    """Swapping the labels of attacked providers leaves every call of an unsupervised attack as it was."""
    rng = np.random.default_rng(3)
    frame, labels = table(40, 40, rng, leak=1.0)
    row = next(row for row in ROWS if row.id == "azk")
    outcome = evaluate(row, frame, labels, 0, seeds=[0], share=0.15, rng=rng)
    _, sorted_labels = subset(frame, labels, 0)
    assert len(outcome.trials[0].calls) == len(outcome.trials[0].test)
    assert (outcome.labels == sorted_labels).all()


def test_subset_keeps_providers_with_more_than_s_queries() -> None:
    frame, labels = table(30, 30, np.random.default_rng(4))
    for s in (0, 5, 10):
        chosen, kept = subset(frame, labels, s)
        assert (chosen["queries"] > s).all()
        assert len(chosen) == len(kept) == int((frame["queries"] > s).sum())
        assert list(chosen.index) == sorted(chosen.index)


def test_hard_labels_have_no_tpr_at_low_fpr_and_scores_have() -> None:
    by_id = {
        row.id: outcome_of(row, 1, leak=1.0, size=150, s=0) for row in ROWS if row.id in ("azk", "likelihood-ratio")
    }
    assert "hard labels" in by_id["azk"].notes["TPR at 1 % FPR"]
    assert "TPR at 1 % FPR" in by_id["likelihood-ratio"].estimates
    small = outcome_of(ROWS[-1], 1, leak=1.0, size=50, s=0)
    assert "are needed" in small.notes["TPR at 1 % FPR"]
    named = {metric.name: metric for metric in present.metrics(small, "target")}
    assert named["TPR at 1 % FPR"].value is None
    assert named["TPR at 1 % FPR"].note


def test_every_number_carries_interval_chance_and_count() -> None:
    for metric in present.metrics(outcome_of(ROWS[3], 2, leak=1.0), "target"):
        if metric.value is not None:
            assert metric.ci is not None
            assert metric.ci[0] <= metric.value <= metric.ci[1]
            assert metric.chance is not None
            assert metric.n
            assert metric.seeds == 5


def test_too_few_providers_are_never_a_leak() -> None:
    assert present.finding([outcome_of(ROWS[0], 0, leak=5.0, size=10)], 0.01).level == "unresolved"


def test_chance_is_the_share_of_the_larger_class_among_the_attacked() -> None:
    rng = np.random.default_rng(5)
    frame, labels = table(60, 30, rng)
    found = evaluate(ROWS[0], frame, labels, 0, seeds=[0], share=0.15, rng=rng)
    # 7 of each class are known: 53 members and 23 others are attacked.
    assert found.chance == pytest.approx(53 / 76)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_model_that_says_nothing_is_no_leak_where_the_classes_differ_in_size(row: AttackRow) -> None:
    rng = np.random.default_rng(6)
    frame, labels = table(25, 75, rng)
    for column in row.columns:
        frame[column] = 0.0
    found = evaluate(row, frame, labels, 0, seeds=range(3), share=0.15, rng=rng)
    assert present.finding([found], 0.05).level == "none"

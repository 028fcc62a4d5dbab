from functools import partial

import numpy as np
import pytest

from pfl_audit.attacks.membership import classifiers, present
from pfl_audit.attacks.membership.evaluation import evaluate, run_trial, subset
from pfl_audit.attacks.membership.rows import ROWS, AttackRow
from pfl_audit.attacks.membership.specs import MembershipSettings
from pfl_audit.documents.units import PROVIDER

from .simulated import table

SEEDS = range(5)


def outcome_of(row: AttackRow, seed: int, leak: float, s: int = 5, size: int = 80):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    frame, labels = table(size, size, rng, leak=leak)
    return evaluate(row, frame, labels, s, seeds=SEEDS, settings=MembershipSettings(), rng=rng)


def test_result_does_not_depend_on_the_order_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    frame, labels = table(40, 40, rng, leak=0.5)
    order = rng.permutation(len(frame))
    for row in ROWS:
        run = partial(evaluate, row, s=5, seeds=SEEDS, settings=MembershipSettings())
        a = run(table=frame, labels=labels, rng=np.random.default_rng(1))
        b = run(table=frame.iloc[order], labels=labels[order], rng=np.random.default_rng(1))
        assert {k: (v.value, v.low, v.high) for k, v in a.estimates.items()} == {
            k: (v.value, v.low, v.high) for k, v in b.estimates.items()
        }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_labels_of_the_attacked_are_used_for_nothing_but_the_score(row: AttackRow) -> None:
    """Exchanging the labels of two attacked providers leaves every call and every score as it was."""
    frame, labels = subset(*table(40, 40, np.random.default_rng(3), leak=1.0), 0)
    known = classifiers.draw_known(labels, 0.15, 0)
    exchanged = labels.copy()
    attacked = np.setdiff1d(np.arange(len(labels)), known)
    member, other = (next(at for at in attacked if labels[at] == value) for value in (True, False))
    exchanged[[member, other]] = exchanged[[other, member]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classifiers, "draw_known", lambda *_: known)
        one, two = (run_trial(row, frame, each, 0, MembershipSettings()) for each in (labels, exchanged))
    assert (one.calls == two.calls).all()
    assert (one.scores == two.scores).all()
    assert one.calls.any()
    assert not one.calls.all()


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
    named = {metric.name: metric for metric in present.metrics(small, "target", PROVIDER)}
    assert named["TPR at 1 % FPR"].value is None
    assert named["TPR at 1 % FPR"].note


def test_every_number_carries_interval_chance_and_count() -> None:
    for metric in present.metrics(outcome_of(ROWS[3], 2, leak=1.0), "target", PROVIDER):
        if metric.value is not None:
            assert metric.ci is not None
            assert metric.ci[0] <= metric.value <= metric.ci[1]
            assert metric.chance is not None
            assert metric.n
            assert metric.seeds == 5


def test_chance_is_the_share_of_the_larger_class_among_the_attacked() -> None:
    rng = np.random.default_rng(5)
    frame, labels = table(60, 30, rng)
    found = evaluate(ROWS[0], frame, labels, 0, seeds=[0], settings=MembershipSettings(), rng=rng)
    # Seven members and, by their share, four others are known: 53 and 26 are attacked.
    assert (found.attacked.sum(), (~found.attacked).sum()) == (53, 26)
    assert found.chance == pytest.approx(53 / 79)

"""Choices of the paper and its reference code in the place of ours."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pfl_audit.attacks.membership import classifiers
from pfl_audit.attacks.membership.evaluation import run_trial
from pfl_audit.attacks.membership.features import without_signs
from pfl_audit.attacks.membership.rows import ROWS
from pfl_audit.attacks.membership.specs import MembershipSettings
from pfl_audit.cli.main import run
from pfl_audit.models.vt5.model import Vt5Responder

BY_ID = {row.id: row for row in ROWS}


def two_groups(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Membership in the first column, and noise of a large unit in the second."""
    rng = np.random.default_rng(seed)
    labels = np.arange(80) % 2 == 0
    return np.column_stack([labels + 0.05 * rng.normal(size=80), 1e3 * rng.normal(size=80)]), labels


def test_raw_features_are_divided_by_the_column_of_the_largest_unit() -> None:
    features, labels = two_groups()
    raw = classifiers.predict_kmeans(features, features[:, 0], 0, raw=True)
    ours = classifiers.predict_kmeans(features, features[:, 0], 0)
    side = features[:, 1] > np.median(features[:, 1])
    assert max((raw == side).mean(), (raw != side).mean()) > 0.85
    assert (ours == labels).mean() > 0.9
    assert (raw == labels).mean() < 0.7


def test_raw_features_of_one_unit_find_the_groups_as_well() -> None:
    features, labels = two_groups()
    assert (classifiers.predict_kmeans(features[:, :1], features[:, 0], 0, raw=True) == labels).all()


def test_as_many_members_as_non_members_are_known() -> None:
    """The paper's RED: 307 and 353 providers, of which 15 % are known."""
    labels = np.arange(660) < 307
    ours, equal = (classifiers.draw_known(labels, 0.15, 0, choice) for choice in (False, True))
    assert [int(labels[ours].sum()), int((~labels[ours]).sum())] == [46, 50]
    assert [int(labels[equal].sum()), int((~labels[equal]).sum())] == [50, 50]
    assert len(np.unique(equal)) == 100


def test_a_tuned_forest_has_the_defaults_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    forest = classifiers.RandomForestClassifier

    def made(*given: object, **named: object) -> object:
        seen.append((given, named))
        return forest(*given, **named)

    monkeypatch.setattr(classifiers, "RandomForestClassifier", made)
    monkeypatch.setattr(classifiers, "_SEARCH", {"n_estimators": [3, 4, 5], "max_depth": [1, 2]})
    features, labels = two_groups()
    classifiers.forest_scores(features[:30], labels[:30], features[30:], 0, search=True)
    assert ((), {"random_state": 0}) in seen


def test_differences_lose_their_sign_and_nothing_else_does() -> None:
    table = pd.DataFrame({"acc": [0.5, 0.1], "delta_loss": [-2.0, 1.0], "log_odds_ratio": [-3.0, 4.0]})
    found = without_signs(table)
    assert found["delta_loss"].tolist() == [2.0, 1.0]
    assert found["log_odds_ratio"].tolist() == [-3.0, 4.0]
    assert table["delta_loss"].tolist() == [-2.0, 1.0]


def test_an_attack_takes_the_choices() -> None:
    features, labels = two_groups()
    frame = pd.DataFrame({"acc": features[:, 0], "nls": features[:, 1], "queries": 3})
    ours, paper = (
        run_trial(BY_ID["azk"], frame, labels, 0, one)
        for one in (MembershipSettings(), MembershipSettings(kmeans="raw"))
    )
    assert (ours.test == paper.test).all()
    assert (ours.calls == labels[ours.test]).mean() > 0.9 > (paper.calls == labels[paper.test]).mean()
    half = MembershipSettings(share=0.5, equal_known=True)
    equal = run_trial(BY_ID["azk"], frame.iloc[:60], np.arange(60) < 10, 0, half)
    known = np.setdiff1d(np.arange(60), equal.test)
    assert int((known < 10).sum()) == 9  # all members but one, where 15 of each class are wanted


def audited(model: Path, before: Path, corpus: Path, out: Path, *words: str) -> dict[str, object]:
    given = ["--model", str(model), "--pretrained", str(before), "--red", str(corpus), "--check", "membership.apk"]
    few = ["--set", "membership.seeds=1", "--set", "membership.forest_search=false", "--s", "0"]
    assert run(["mia", *given, *few, "--out", str(out), "-q", *words]) in (0, 1, 3)
    checks = json.loads((out / "results.json").read_text())["checks"]
    return next(dict(check) for check in checks if check["id"] == "membership.apk")


def refuse(*_: object) -> None:
    raise AssertionError("the model is asked")


@pytest.mark.slow
def test_losses_with_dropout_are_asked_once_and_change_the_attack(
    make_checkpoint: Callable[[int], Path], corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, store = (make_checkpoint(0), make_checkpoint(1)), ("--store", str(tmp_path / "store.sqlite"))
    paper = audited(*models, corpus_folder, tmp_path / "paper", "--as-published", *store)
    ours = audited(*models, corpus_folder, tmp_path / "ours", "--as-published", "--set", "membership.losses=evaluation")
    for name in ("dropout_losses", "respond"):
        monkeypatch.setattr(Vt5Responder, name, refuse)  # the store has all of it
    again = audited(*models, corpus_folder, tmp_path / "again", "--as-published", *store)
    assert "losses = dropout" in str(paper["as_published"])
    assert "stated by the user instead: " in str(ours["as_published"])
    assert paper["metrics"] == again["metrics"] != ours["metrics"]


def test_other_families_say_what_to_state(
    make_checkpoint: Callable[[int], Path], corpus_folder: Path, tmp_path: Path
) -> None:
    donut = Path(__file__).parents[2] / "fixtures/donut"
    found = audited(donut, make_checkpoint(1), corpus_folder, tmp_path / "paper", "--as-published")
    assert found["status"] == "skipped"
    assert "membership.losses=evaluation" in str(found["reason"])

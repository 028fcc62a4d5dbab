"""Settings that are tuned on a shadow target."""

import json
import math
import secrets
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pfl_audit.attacks.reconstruction import tuning
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.cli.main import run
from pfl_audit.documents.synthetic.forms import FormRecipe, make_forms
from pfl_audit.models.calls import InTurn
from pfl_audit.progress import Silent

from ...oracles import cdmi as oracle

SETTINGS = ReconstructionSettings()


def seen(count: int, *, logits: bool, losses: bool) -> list[tuning.Seen]:
    """Tokens of which one of the two models knows the truth, and the other says noise."""
    rng = np.random.default_rng(1)
    made = []
    for number in range(count):
        truth = int(rng.integers(20))
        says, lost = rng.normal(size=20), rng.uniform(0.8, 1.2, size=20)
        says[truth] += 4.0 * logits
        lost[truth] *= 0.3 if losses else 1.0
        made.append(tuning.Seen(number % 4, truth, says, lost))
    return made


def test_the_likelihood_by_hand() -> None:
    some = seen(9, logits=True, losses=True)
    settings = SETTINGS.model_copy(update={"weight": 0.7, "mean": "arithmetic", "target_temperature": 0.2})
    total = 0.0
    for one in some:
        temperature = 0.3 * (1 + 2 * max(0, 3 - one.step) / 3)
        public = oracle.softmax(one.logits.tolist(), temperature)
        assert one.losses is not None
        middle = float(np.median(one.losses))
        target = oracle.softmax([2 - loss / middle for loss in one.losses.tolist()], 0.2)
        total += math.log(0.7 * target[one.truth] + 0.3 * public[one.truth])
    assert tuning.likelihood(some, settings) == pytest.approx(total / 9)


def test_the_model_that_knows_gets_the_weight() -> None:
    def best(some: list[tuning.Seen]) -> float:
        weights = (0.0, 0.2, 0.4, 0.6, 0.8, 0.95)
        return max(weights, key=lambda w: tuning.likelihood(some, SETTINGS.model_copy(update={"weight": w})))

    assert best(seen(200, logits=True, losses=False)) <= 0.2
    assert best(seen(200, logits=False, losses=True)) >= 0.8


def test_the_likeliest_settings_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shadow models alone are put in place of trained ones."""
    some = seen(40, logits=False, losses=True)
    pair = (None, SimpleNamespace(task="el"))
    monkeypatch.setattr(tuning, "_shadow", lambda *given: (pair, InTurn(pair), some))
    monkeypatch.setattr(tuning, "_look", lambda *given: some)
    best, table = tuning.tune(cast("Any", SimpleNamespace(progress=Silent())), SETTINGS)
    assert tuning.likelihood(some, best) > tuning.likelihood(some, SETTINGS)
    assert best.weight >= 0.8
    assert [row[0] for row in table.rows][-1] == "log-likelihood of a token"


@pytest.mark.slow
@pytest.mark.usefixtures("warm_workers")
def test_a_target_is_tuned_without_its_private_forms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda count: "0" * 2 * count)  # the same masks
    forms = tmp_path / "forms"
    make_forms(FormRecipe(private=4, public=15, validation=3, seed=5), forms, Silent())
    common = ["--data", str(forms), "--epochs", "1", "--max-tokens", "192", "-q"]
    public, target = tmp_path / "public", tmp_path / "target"
    new = ["--size", "tiny", "--vocabulary", "200", "--out", str(public)]
    assert run(["train", "--task", "mlm", "--part", "public", *new, *common]) == 0
    start = ["--from", str(public / "best-loss"), "--out", str(target)]
    assert run(["train", "--task", "ee-bio", *start, *common]) == 0
    models = ["--model", str(target / "best-loss"), "--public", str(public / "best-loss"), "--forms", str(forms)]
    few = ["--fields", "4", "--candidates", "6", "--set", "reconstruction.expansions=4"]
    attack = ["reconstruct", *models, *few, "-q", "--fail-on", "never"]
    out = tmp_path / "run"
    assert run([*attack, "--tune", "--out", str(out)]) in (0, 3)
    checks = json.loads((out / "results.json").read_text())["checks"]
    (table,) = [table for table in checks[0]["tables"] if table["title"] == "Tuned on a shadow target"]
    tuned = {row[0]: row[2] for row in table["rows"]}
    assert table["rows"][-1][2] >= table["rows"][-1][1]
    assert {name: checks[0]["settings"][name] for name in ("weight", "mean")} == {
        name: tuned[name] for name in ("weight", "mean")
    }
    private = {
        form["id"]
        for form in map(json.loads, (forms / "forms.jsonl").read_text().splitlines())
        if form["part"] == "private"
    }
    (shadow,) = (out / "private" / "states").glob("shadow-*/forms/forms.jsonl")
    used = {json.loads(line)["id"] for line in shadow.read_text().splitlines()}
    assert len(used) == 15
    assert used.isdisjoint(private)
    many, beside = tmp_path / "many", tmp_path / "beside"
    shutil.copytree(out / "private/states", beside / "states")  # the shadow models, not what they say
    several = ["--workers", "2", "--store", str(beside / "store.sqlite"), "--out", str(many)]
    assert run([*attack, "--tune", *several]) in (0, 3)
    assert json.loads((many / "results.json").read_text())["checks"] == checks
    work = json.loads((many / "run.json").read_text())
    assert run([*attack, "--tune", "--out", str(out)]) in (0, 3)
    again = json.loads((out / "run.json").read_text())
    assert (again["fields_filled"], again["fields_reused"]) == (0, work["fields_filled"])
    capsys.readouterr()
    (target / "best-loss" / "training.json").unlink()
    assert run([*attack, "--tune", "--out", str(tmp_path / "again")]) == 4
    assert "the target was, whose training.json does not state its settings" in capsys.readouterr().err
    assert run([*attack, "--ranking", "ratio to the public target", "--out", str(tmp_path / "third")]) == 4
    assert "Give --public-target" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["ee-spade", "el"])
def test_a_shadow_is_scored_at_the_tokens_of_its_target(task: str) -> None:
    def recipe(**settings: object) -> str:
        return tuning._recipe({"identity": {"settings": {"task": task, **settings}}}, "target").labelled_tokens

    assert recipe() == "fields", "records from before there was a choice"
    assert recipe(labelled_tokens="word-starts") == "word-starts"

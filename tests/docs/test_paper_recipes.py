"""Recipes of the papers' tables: each runs on drawn data in the papers' layouts, and its numbers find ours."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pfl_audit.attacks.membership import classifiers
from pfl_audit.cli import train
from pfl_audit.cli.main import run
from tests.docs.pages import ROOT
from tests.docs.paper_data import copy_recipes, lay_out

FOLDER = ROOT / "docs/recipes/papers"
RECIPES = {path.stem: tomllib.loads(path.read_text()) for path in sorted(FOLDER.glob("*.toml"))}
AUDITS = [name for name, recipe in RECIPES.items() if "train" not in recipe]
TRAINING = [name for name, recipe in RECIPES.items() if "train" in recipe]
FEWER = ("--set", "membership.seeds=1", "--set", "reconstruction.fields=6", "--set", "gradients.documents=1",
         "--set", "inversion.iterations=2", "--set", "inversion.known=both")  # fmt: skip
"""Of everything whose number decides how long a run takes."""
SYSTEMS = ("dp-clgecl", "fedshampoo", "lora", "quantized", "tuned-rounds")
"""Recipes that the competition's page trains beside those of its own folder."""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("papers")
    lay_out(folder)
    copy_recipes(folder)
    return folder


@pytest.fixture
def here(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(workplace)
    monkeypatch.setattr(classifiers, "_SEARCH", {"n_estimators": [5, 6], "max_depth": [2, 3, 4]})
    return workplace


def path_of(name: str) -> str:
    return f"docs/recipes/papers/{name}.toml"


def results(name: str, *more: str) -> dict[str, Any]:
    """Results of a recipe with fewer of everything; the answers of all recipes are in one store."""
    out = Path("runs") / name
    if not (out / "results.json").exists():
        exports = ("--csv", f"{name}.csv", "--latex", f"{name}.tex")
        shared = ("--out", str(out), "--store", "runs/store.sqlite", "-q")
        assert run(["run", path_of(name), *FEWER, *more, *shared, *exports]) in (0, 3)
    return json.loads((out / "results.json").read_text())


@pytest.mark.parametrize("name", AUDITS)
def test_a_recipe_is_valid_where_its_tree_is(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", path_of(name)]) == 0
    assert RECIPES[name]["as-published"] is True
    assert not {one for one in RECIPES[name] if "-" in one} - {"as-published", "fail-on"}


@pytest.mark.slow
@pytest.mark.parametrize("name", AUDITS)
def test_a_recipe_runs_and_every_number_of_the_paper_finds_ours(name: str, here: Path) -> None:
    found = results(name)
    checks = {check["id"]: check for check in found["checks"]}
    assert all(checks[check]["status"] == "ran" for check in RECIPES[name]["check"]), checks
    assert len(found["published"]) == len(RECIPES[name]["published"])
    rows = list(csv.DictReader(io.StringIO(Path(f"{name}.csv").read_text())))
    beside = [(row["check"], row["table"], row["row"], float(row["published value"])) for row in rows if row["paper"]]
    wanted = [(one["check"], one["table"], one["row"], float(one["value"])) for one in RECIPES[name]["published"]]
    assert sorted(beside) == sorted(wanted)
    assert Path(f"{name}.tex").read_text().count(r"\begin{table}") >= len(RECIPES[name]["check"])
    page = (Path("runs") / name / "report.html").read_text()
    assert "What do the papers print?" in page


@pytest.mark.slow
def test_numbers_say_which_settings_are_the_papers(here: Path) -> None:
    """``--set membership.seeds=1`` is the user's."""
    found = {check["id"]: check for check in results("privacy-aware-table4")["checks"]}
    label = (
        "settings as published: forest_search = true, kmeans = raw, differences = absolute, losses = dropout, "
        "equal_known = true; "
        "stated by the user instead: seeds = 1"
    )
    assert found["membership.azk"]["as_published"] == label
    assert found["membership.azk"]["settings"]["kmeans"] == "raw"
    assert "settings as published" in Path("runs/privacy-aware-table4/report.html").read_text()
    assert "settings as published" in Path("privacy-aware-table4.csv").read_text()


@pytest.mark.parametrize("name", TRAINING)
def test_a_recipe_of_training_is_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(train, "_run", lambda *given, **_: seen.extend(given))
    words = ["--from", "start", "--data", "data", "--out", "out"]
    assert run(["train", "--config", str(FOLDER / f"{name}.toml"), *words]) == 0
    job, settings, privacy = seen
    assert (privacy is not None) == job.mode.endswith("dp")
    settings.check()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TRAINING, *SYSTEMS])
def test_a_recipe_of_training_trains(name: str, here: Path) -> None:
    """With fewer rounds, steps and providers; everything else is the recipe's."""
    path = Path(path_of(name) if name in TRAINING else f"docs/recipes/{name}.toml")
    recipe = tomllib.loads(path.read_text())["train"]
    fewer = [("steps", 2), ("rounds", 1), ("local-epochs", 1), ("pretrain-rounds", 1), ("providers-per-round", 2),
             ("minimum-providers", 4), ("local-steps", 2)]  # fmt: skip
    words = [word for key, value in fewer if key in recipe for word in (f"--{key}", str(value))]
    if recipe.get("sampling") == "fixed-size":
        words += ["--ledger", "models/competition.ledger.json"]
    data, out = "data/pilot-3" if name.startswith("pilot") else "data/pfl-docvqa", Path("models/trained") / name
    given = ["--from", "models/vt5-base-spdocvqa", "--data", data, "--out", str(out), "-q"]
    assert run(["train", "--config", str(path), *given, *words]) == 0
    record = json.loads((out / "training.json").read_text())
    before, after = (load_file(folder / "model.safetensors") for folder in (Path("models/vt5-base-spdocvqa"), out))
    assert record["mode"] == recipe["mode"]
    assert any(not torch.equal(before[key], after[key]) for key in before)


@pytest.mark.slow
def test_stages_of_a_training_find_the_papers_numbers(here: Path) -> None:
    """Two rounds in NF4 of the recipe of Table A5, and every number of its column."""
    words = ["--from", "models/vt5-base-spdocvqa", "--data", "data/pfl-docvqa", "--out", "models/a5-nf4-2", "-q"]
    fewer = ["--local-epochs", "1", "--local-steps", "1", "--clients-per-round", "2", "--codec", "nf4"]
    assert run(["train", "--config", path_of("competition-table-a5"), *words, *fewer]) == 0
    table = "docs/recipes/papers/tables/competition-table-a5.toml"
    assert run(["trainings", "models/a5-nf4-2", "--config", table, "--csv", "a5.csv", "-q"]) == 0
    wanted = [one for one in tomllib.loads(Path(table).read_text())["published"] if one["check"].endswith("nf4-2")]
    rows = {row["row"]: row for row in csv.DictReader(io.StringIO(Path("a5.csv").read_text())) if row["paper"]}
    assert len(wanted) == 8
    assert all(rows[one["row"]]["value"] for one in wanted)


@pytest.mark.parametrize("name", RECIPES)
def test_the_head_has_its_command(name: str) -> None:
    text = (FOLDER / f"{name}.toml").read_text()
    command = f"pfl-audit train --config {path_of(name)}" if name in TRAINING else f"pfl-audit run {path_of(name)}"
    assert f"# {command}" in text

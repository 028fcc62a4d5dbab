"""Recipes of the papers' systems: the command takes each file, and it holds what the paper has."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.cli import train
from pfl_audit.cli.main import run
from pfl_audit.training.federated.plan import plan_privacy
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.start import TrainRun

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "docs/recipes").glob("*.toml"))
MESSAGE = {"float32": 13_676_544, "nf4": 1_923_264}
"""Bytes of a message of LoRA of rank 6, VT5 of base size (Table A2)."""


def settings_of(recipe: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[TrainRun, FederatedSettings]:
    seen: list[Any] = []
    monkeypatch.setattr(train, "_run", lambda *given, **_: seen.extend(given))
    assert run(["train", "--config", str(recipe), "--from", "start", "--data", "data", "--out", "out", *words]) == 0
    job, settings, privacy = seen
    assert (privacy is None) == (recipe.stem != "dp-clgecl")
    settings.check()
    return job, settings


def test_all_are_here() -> None:
    assert [recipe.stem for recipe in RECIPES] == ["dp-clgecl", "fedshampoo", "lora", "quantized", "tuned-rounds"]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_the_command_takes_it(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, settings = settings_of(recipe, monkeypatch)
    assert job.mode == ("fl-dp" if recipe.stem == "dp-clgecl" else "fl")
    assert settings.learning_rate == 2e-4
    assert settings_of(recipe, monkeypatch, "--rounds", "99")[1].rounds == 99  # the command line has the last word


def test_an_audit_of_two_versions_is_valid() -> None:
    given = (f"--{name}={ROOT}/fixtures/{of}" for name, of in
             (("model", "vt5-finetuned"), ("pretrained", "vt5-pretrained"), ("red", "red")))  # fmt: skip
    assert run(["audit", "--config", f"{ROOT}/docs/recipes/audits/two-versions.toml", *given, "--validate"]) == 0


def test_the_private_recipe_is_that_of_figure_a4() -> None:
    values = tomllib.loads((ROOT / "docs/recipes/dp-clgecl.toml").read_text())["train"]
    federated = FederatedSettings(rounds=values["rounds"], client_memory=values["client-memory"])
    groups = values["providers-per-round"], values["minimum-providers"]
    privacy = PrivacySettings(
        sampling=values["sampling"], clip=values["clip"], providers_per_round=groups[0], minimum_providers=groups[1]
    )
    plan = plan_privacy("fl-dp", privacy, federated, 10)
    assert (federated.rounds, plan.settings.clip, plan.client_divisor) == (14, 0.5, pytest.approx(50))
    assert plan.mechanism.sampling.published_rate == pytest.approx(0.025)


@pytest.mark.parametrize(
    ("name", "clients", "epochs", "megabytes"),
    [("lora", 2, 1, 383), ("tuned-rounds", 1, 16, 55), ("quantized", 1, 16, 7.7)],
)
def test_bytes_are_those_of_table_a2(
    name: str, clients: int, epochs: int, megabytes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    (recipe,) = (recipe for recipe in RECIPES if recipe.stem == name)
    job, settings = settings_of(recipe, monkeypatch)
    assert (job.lora, settings.clients_per_round, settings.local_epochs) == (6, clients, epochs)
    sent = 2 * settings.rounds * settings.clients_per_round * MESSAGE[settings.codec]
    assert sent / 1e6 == pytest.approx(megabytes, rel=0.01)

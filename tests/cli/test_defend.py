import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from pfl_audit.attacks.inversion.context import GradientContext, Observation
from pfl_audit.attacks.inversion.inputs import GRADIENT
from pfl_audit.attacks.inversion.published import difference
from pfl_audit.cli.main import run
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.results import Check, Finding, Metric
from tests.attacks.inversion.gradient_fakes import FakeGradients, Settings
from tests.attacks.inversion.template.drawn import draw_form, form, save_form
from tests.core.plans import FakeRegistry

Capture = pytest.CaptureFixture[str]
Defend = Callable[..., int]


class Looking:
    """Stands in for the attack: its words are the share of the template's pixels that are as the client's."""

    name = "inversion"
    subject = "gradients"
    specs = tuple(CheckSpec(f"inversion.{name}", name, frozenset({GRADIENT})) for name in ("lbfgs", "text"))
    Settings = Settings

    def __init__(self) -> None:
        self.seen: list[Observation] = []

    def run(self, context: GradientContext, settings: Settings) -> list[Check]:
        (case,) = context.cases
        self.seen.append(case.seen)
        outside = ~case.seen.template.mask()
        same = float((case.seen.template.pixels == case.truths[0].page)[outside].mean())
        inside = {"place": "private fields"}
        found = [
            Metric(name="words exact", format="percent", value=same, ci=(same, same), chance=0.0, slice=inside),
            Metric(name="PSNR", format="decibel", value=10 * same, slice=inside),
        ]
        finding = Finding(level="leak", text="It looked.", remedy="None.", metric="words exact", slice=inside)
        lbfgs, text = self.specs
        checks = [lbfgs.ran(metrics=found, finding=finding), text.not_run("skipped", "it looks at pages alone")]
        return [check for check in checks if check.id in context.checks]


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Looking:
    attack = Looking()
    monkeypatch.setattr("pfl_audit.core.runner.ATTACKS", FakeRegistry(inversion=attack))
    for module in ("gradients", "published"):
        monkeypatch.setattr(
            f"pfl_audit.attacks.inversion.{module}.open_gradient_model", lambda name, device: FakeGradients()
        )
    return attack


@pytest.fixture
def defend(looking: Looking, tmp_path: Path) -> Defend:
    image, _ = save_form(tmp_path)

    def command(*more: object, template: Path = image, steps: int = 3) -> int:
        given = ["defend", "--model", "ckpt", "--template", template, "--fields", tmp_path / "fields.json"]
        rest = ["--out", tmp_path / "run", "--steps", steps, "-q", *more]
        return run([str(part) for part in (*given, *rest)])

    return command


def pixels(path: Path) -> NDArray[np.int64]:
    return np.asarray(Image.open(path), dtype=np.int64)


def test_templates_are_written_and_attacked(defend: Defend, looking: Looking, tmp_path: Path, capsys: Capture) -> None:
    budgets = [part for budget in (4, 8) for part in ("--budget", budget)]
    assert defend(*budgets, "--strategy", "pgd", "--strategy", "random") == 0
    names = ["pgd-4", "pgd-8", "random-4", "random-8"]
    clean, inside = pixels(tmp_path / "t.png"), form().mask()
    for name in names:
        budget = int(name.split("-")[1])
        change = pixels(tmp_path / "run" / f"template-{name}.png") - clean
        assert np.abs(change).max() == budget
        assert not change[inside].any()
        shown = pixels(tmp_path / "run" / f"difference-{name}.png")
        assert (shown[change == 0] == 128).all()
        assert (shown[change == -budget] == 0).all()
        assert (shown[change == budget] == 255).all()
    first, *others = looking.seen
    assert (first.template.pixels == clean).all()
    for name, other in zip(names, others, strict=True):
        assert (other.template.pixels == pixels(tmp_path / "run" / f"template-{name}.png")).all()
        assert other.template.fields == first.template.fields
        assert all(torch.equal(other.gradient[key], first.gradient[key]) for key in first.gradient)
    told = json.loads((tmp_path / "run" / "defence.json").read_text())
    assert [one["name"] for one in told["variants"]] == ["before", *names]
    words = [one["checks"][0]["metrics"][0]["value"] for one in told["variants"]]
    assert words[0] == 1
    assert max(words[1:]) < 0.7
    assert (tmp_path / "run" / "before" / "report.html").is_file()
    page = (tmp_path / "run" / "comparison.html").read_text()
    assert "Perturbed template: random, 8/255" in page
    assert "does nothing against attacks that need no template" in page
    shown_text = capsys.readouterr().out
    assert "before    inversion.lbfgs  100.0 % words exact" in shown_text
    assert "does nothing against attacks that need no template" in shown_text


def test_what_is_there_is_kept_and_anything_else_made_again(defend: Defend, tmp_path: Path) -> None:
    """As after a kill: a whole template is taken, one that is damaged or of other settings is not."""
    one, other = (tmp_path / "run" / f"template-pgd-{budget}.png" for budget in (4, 8))

    def made(**changes: int) -> list[bool]:
        for path in (one, other):
            if path.exists():
                os.utime(path, (1, 1))
        assert defend("--budget", 4, "--budget", 8, **changes) == 0
        return [path.stat().st_mtime > 1 for path in (one, other)]

    assert made() == [True, True]
    before = one.read_bytes(), other.read_bytes()
    assert made() == [False, False]
    other.write_bytes(b"cut")
    assert made() == [False, True]
    (tmp_path / "run" / "difference-pgd-4.png").unlink()
    assert made() == [True, False]
    (tmp_path / "run" / "template-pgd-8.json").write_text("[")
    assert made() == [False, True]
    assert (one.read_bytes(), other.read_bytes()) == before
    assert made(steps=7) == [True, True]


def test_budgets_and_one_json_document(defend: Defend, tmp_path: Path, capsys: Capture) -> None:
    assert defend("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in told["variants"]] == ["before", "pgd-8", "pgd-12", "pgd-16", "pgd-32"]
    assert told["variants"][1]["template"] == "template-pgd-8.png"


def test_every_audit_holds_who_can_reach_the_model_and_the_configuration(defend: Defend, tmp_path: Path) -> None:
    config = tmp_path / "defend.toml"
    config.write_text("budget = [8]\n")
    assert defend("--release", "internal", "--config", config) == 0
    for name in ("before", "pgd-8"):
        found = json.loads((tmp_path / "run" / name / "results.json").read_text())
        assert found["release"] == "internal"
        assert found["provenance"]["config"] is not None


def test_a_check_that_cannot_be_run_is_told(defend: Defend, capsys: Capture) -> None:
    assert defend("--budget", 8, "--method", "text") == 3
    assert "skipped: inversion.text: it looks at pages alone" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (["--strategy", "magic"], 4, "there is no strategy 'magic'. Choose among: pgd, random"),
        (["--method", "magic"], 4, "there is no method 'magic'"),
        (["--budget", "0"], 4, "--budget"),
        (["--budget", "256"], 4, "--budget"),
        (["--steps", "0"], 4, "--steps"),
        (["--set", "gradients.public=other.png"], 4, "gradients.public is what defend writes"),
    ],
)
def test_bad_options_are_one_line(given: list[str], code: int, message: str, defend: Defend, capsys: Capture) -> None:
    assert defend(*given) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert message in shown.err


def test_a_folder_of_forms_is_one_line(defend: Defend, tmp_path: Path, capsys: Capture) -> None:
    assert defend(template=tmp_path) == 2
    assert "is a folder, and one form is perturbed. Name its template.png" in capsys.readouterr().err


def test_the_observer_of_invert_has_the_published_form(looking: Looking, tmp_path: Path, capsys: Capture) -> None:
    image, fields = save_form(tmp_path)
    public, small, out = tmp_path / "public.png", tmp_path / "small.png", tmp_path / "run"
    perturbed = (np.asarray(draw_form(), dtype=np.int64) - 9).clip(0).astype(np.uint8)
    Image.fromarray(perturbed).save(public)
    Image.fromarray(perturbed).resize((100, 80)).save(small)

    def invert(*more: Any, template: Path = image) -> int:
        given = ["invert", "--model", "ckpt", "--template", template, "--method", "lbfgs", "--fail-on", "never"]
        return run([str(part) for part in (*given, *more, "-q")])

    assert invert("--fields", fields, "--out", out) == 0
    assert invert("--fields", fields, "--out", tmp_path / "second", "--public", public) == 0
    before, after = looking.seen
    assert (after.template.pixels == perturbed).all()
    assert (after.template.fields, after.template.words) == (before.template.fields, before.template.words)
    assert all(torch.equal(after.gradient[name], before.gradient[name]) for name in before.gradient)
    capsys.readouterr()
    assert invert("--fields", fields, "--out", tmp_path / "third", "--public", small) == 4
    assert "small.png is 100 x 80 pixels and its template 200 x 160" in capsys.readouterr().err
    assert invert("--fields", fields, "--out", out, "--public", public) == 4
    assert "holds an audit with other settings" in capsys.readouterr().err
    assert invert("--out", tmp_path / "fourth", "--public", public, template=tmp_path) == 4
    assert "--public is of one form" in capsys.readouterr().err


def test_the_difference_is_amplified_to_full_contrast() -> None:
    clean = np.full((1, 5, 3), 100, dtype=np.uint8)
    perturbed = (clean + np.array([-8, -4, 0, 4, 8])[None, :, None]).astype(np.uint8)
    assert difference(clean, perturbed, 8)[0, :, 0].tolist() == [0, 64, 128, 191, 255]

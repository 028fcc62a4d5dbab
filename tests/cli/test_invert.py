import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from pfl_audit.attacks.inversion.context import GradientContext
from pfl_audit.attacks.inversion.gradients import observation_key
from pfl_audit.attacks.inversion.inputs import GRADIENT
from pfl_audit.cli.main import run
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.results import Check, Finding
from pfl_audit.core.settings import Settings as Base
from pfl_audit.documents.corpus import Corpus
from tests.attacks.inversion.template.drawn import draw_form, save_form
from tests.core.plans import FakeRegistry
from tests.models.donut.conftest import save_ours

Capture = pytest.CaptureFixture[str]
FIXTURES = Path(__file__).parents[2] / "fixtures"
NAMES = ("text", "analytic", "words", "gi_dqa", "dlg", "idlg", "inverting_gradients", "april", "lbfgs")


class Settings(Base):
    """Those that the command hands over."""

    iterations: int = 800
    layers: str = "all"
    alpha_txt: float = 0.1
    alpha_gau: float = 0.01
    alpha_tv: float = 0.1
    scheduler: str = "decay"
    known: str = "recovered"
    init: str | None = None
    knowledge: str = "published"
    ocr: str = "rapidocr"
    ocr_weights: Path | None = None


class Looking:
    """Stands in for the attack: writes the gradient down, and says what it was given."""

    name = "inversion"
    subject = "gradients"
    specs = tuple(CheckSpec(f"inversion.{name}", name, frozenset({GRADIENT})) for name in NAMES)
    Settings = Settings

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, context: GradientContext, settings: Settings) -> list[Check]:
        for case in context.cases:
            save_file(dict(case.seen.gradient), self._folder / "seen.safetensors")
            context.records.put(observation_key(context.model, case.seen), {})
        facts = {
            "cases": len(context.cases),
            "batch": context.cases[0].seen.batch,
            "truths": len(context.cases[0].truths),
            **settings.model_dump(mode="json"),
        }
        nothing = Finding(level="none", text="It only looked.", remedy="None.")
        return [spec.ran(settings=facts, finding=nothing) for spec in self.specs if spec.id in context.checks]


@pytest.fixture(scope="session")
def donut(red: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("invert") / "donut"
    folder.mkdir()
    save_ours(sorted({text for query in red.queries for text in (query.question, *query.answers)}), folder)
    return folder


@pytest.fixture
def invert(donut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.setattr("pfl_audit.core.runner.ATTACKS", FakeRegistry(inversion=Looking(tmp_path)))
    image, _ = save_form(tmp_path)

    def command(*more: object, out: str = "run", model: Path = donut, template: Path = image) -> int:
        given = ["invert", "--model", model, "--template", template, "--out", tmp_path / out, "-q", *more]
        return run([str(part) for part in given])

    return command


def results(out: Path) -> Any:
    return json.loads((out / "results.json").read_text())


def test_a_template_alone(invert: Callable[..., int], tmp_path: Path) -> None:
    assert invert() == 0
    found = results(tmp_path / "run")
    assert [check["id"] for check in found["checks"]] == ["inversion.text", "inversion.words", "inversion.lbfgs"]
    settings = found["checks"][0]["settings"]
    assert (settings["cases"], settings["batch"], settings["truths"], settings["known"]) == (1, 1, 1, "recovered")
    assert found["datasets"][0]["parts"]["fields"] == 3
    assert found["target"]["family"] == "donut"
    report = (tmp_path / "run" / "report.html").read_text()
    assert "templates: 1, private fields: 3" in report


def test_every_option_reaches_the_attack(
    invert: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("weights").mkdir()
    Path("weights/config.json").write_text("{}")
    save_file({"a": torch.zeros(1)}, "weights/model.safetensors")
    options = {
        "--iterations": 7,
        "--layers": "pre-fusion",
        "--prior-txt": 0.5,
        "--prior-gau": 0.0,
        "--prior-tv": 2.0,
        "--scheduler": "delayed",
        "--known": "characters",
        "--init": "noise",
        "--knowledge": "template",
        "--ocr": "trocr",
        "--ocr-weights": "weights",
        "--batch-size": 2,
        "--documents": 2,
        "--noise": 0.001,
        "--stage": 1,
        "--fields": tmp_path / "fields.json",
    }
    methods = ["--method", "inverting-gradients", "--method", "gi-dqa"]
    assert invert(*methods, *[part for pair in options.items() for part in pair]) == 0
    checks = results(tmp_path / "run")["checks"]
    assert [check["id"] for check in checks] == ["inversion.inverting_gradients", "inversion.gi_dqa"]
    expected = {
        "iterations": 7,
        "layers": "pre-fusion",
        "alpha_txt": 0.5,
        "alpha_gau": 0.0,
        "alpha_tv": 2.0,
        "scheduler": "delayed",
        "known": "characters",
        "init": "noise",
        "knowledge": "template",
        "ocr": "trocr",
        "ocr_weights": "weights",
        "batch": 2,
        "cases": 2,
        "truths": 2,
    }
    assert checks[0]["settings"] == expected


def test_all_methods(invert: Callable[..., int], tmp_path: Path) -> None:
    assert invert("--method", "all", "--method", "dlg") == 0
    assert [check["id"] for check in results(tmp_path / "run")["checks"]] == [f"inversion.{name}" for name in NAMES]


def test_a_gradient_that_was_captured_is_the_one_that_is_attacked(invert: Callable[..., int], tmp_path: Path) -> None:
    assert invert(out="own") == 0
    captured = load_file(tmp_path / "seen.safetensors")
    save_file(captured, tmp_path / "g.safetensors")
    assert invert("--gradient", tmp_path / "g.safetensors") == 0
    again = load_file(tmp_path / "seen.safetensors")
    assert all(torch.equal(captured[name], again[name]) for name in captured)
    assert results(tmp_path / "run")["checks"][0]["settings"]["truths"] == 0


def refused(capsys: Capture, code: int, given: int, message: str) -> None:
    """One line, and the right code."""
    shown = capsys.readouterr()
    assert given == code, shown.err
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert message in shown.err


def test_bad_input_is_one_line(invert: Callable[..., int], tmp_path: Path, capsys: Capture) -> None:
    """A page of another size; misshapen tensors and NaN; fields outside the page."""
    draw_form().resize((100, 160)).save(tmp_path / "d.png")
    page = ("--document", tmp_path / "d.png")
    asked = ("--question", "Who?", "--answer", "Rosa")
    refused(capsys, 4, invert(*page, *asked), "d.png is 100 x 160 pixels and its template 200 x 160")
    refused(capsys, 4, invert(*page), "--document needs --question and --answer")
    refused(capsys, 4, invert("--answer", "Rosa"), "--question and --answer belong together")
    assert invert(out="own") == 0
    capsys.readouterr()
    whole = load_file(tmp_path / "seen.safetensors")
    name = "decoder.model.decoder.embed_tokens.weight"
    for part, message in (
        ({name: whole[name][:-1]}, f"tensor {name} is"),
        ({name: whole[name] * torch.nan}, f"tensor {name} holds NaN or infinite values"),
        ({"other": whole[name]}, "none of its 1 tensors is a parameter of the model"),
    ):
        save_file({key: tensor.contiguous() for key, tensor in part.items()}, tmp_path / "g.safetensors")
        refused(capsys, 2, invert("--gradient", tmp_path / "g.safetensors"), message)
    refused(capsys, 4, invert("--gradient", tmp_path / "none"), "none does not exist")
    save_form(tmp_path, [{"label": "a", "box": [150, 20, 250, 40]}])
    refused(capsys, 2, invert("--fields", tmp_path / "fields.json"), "field 1 lies outside the page of 200 x 160")
    Image.new("RGB", (200, 160), "white").save(tmp_path / "white.png")
    refused(capsys, 3, invert(template=tmp_path / "white.png", out="w"), "no blank box was found on template")
    refused(capsys, 4, invert(template=tmp_path / "nothing.png", out="n"), "does not exist")
    refused(capsys, 4, invert("--device", "nowhere"), "torch cannot use the device 'nowhere'")
    refused(capsys, 4, invert("--method", "magic"), "there is no method 'magic'. Choose among: text, analytic")


def test_tensors_that_are_missing_are_named(
    invert: Callable[..., int], donut: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert invert(out="own") == 0
    whole = load_file(tmp_path / "seen.safetensors")
    name = "decoder.model.decoder.embed_tokens.weight"
    save_file({name: whole[name]}, tmp_path / "g.safetensors")
    capsys.readouterr()
    given = ["--template", tmp_path / "t.png", "--gradient", tmp_path / "g.safetensors", "--out", tmp_path / "run"]
    assert run(["invert", "--model", str(donut), *map(str, given)]) == 0
    assert "the gradient lacks" in capsys.readouterr().err


def test_models_without_gradients(invert: Callable[..., int], tmp_path: Path, capsys: Capture) -> None:
    refused(
        capsys,
        3,
        invert(model=FIXTURES / "layoutlm-private"),
        "a form-encoder checkpoint, and that family offers no training gradient. Give a checkpoint of a family that "
        "does: donut, layoutlm",
    )
    refused(capsys, 4, invert(model=tmp_path / "nothing"), "nothing does not exist")

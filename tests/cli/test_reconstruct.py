"""``reconstruct`` from the command line to results.json: what it finds, what it hides, and what it refuses."""

import json
import os
import re
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pfl_audit.cli.main import run
from pfl_audit.models.encoders.checkpoint import LoadedEncoder, save_encoder
from pfl_audit.models.encoders.config import EncoderConfig, VisualConfig
from pfl_audit.models.encoders.network import FormEncoder
from pfl_audit.models.encoders.tokens import FormTokenizer
from tests.command_server import CommandServer
from tests.models.encoders.others import saved

FIXTURES = Path(__file__).parents[2] / "fixtures"
PRIVATE, PUBLIC, FORMS = (FIXTURES / name for name in ("layoutlm-private", "layoutlm-public", "forms"))
ROWS: list[dict[str, Any]] = [json.loads(line) for line in (FORMS / "forms.jsonl").read_text().splitlines()]
SMALL = ("--fields", "3", "--attempts", "2", "--candidates", "4")
Capture = pytest.CaptureFixture[str]
Row = dict[str, Any]


@pytest.fixture
def few(tmp_path: Path) -> Callable[..., Path]:
    """The first forms of each part, changed, without images unless they are wanted."""

    def make(
        private: int = 4, validation: int = 2, *, change: Callable[[Row], object] | None = None, images: bool = False
    ) -> Path:
        folder = tmp_path / "forms"
        (folder / "images").mkdir(parents=True, exist_ok=True)
        wanted = {"private": private, "validation": validation, "public": 1}
        rows = [row for part, count in wanted.items() for row in [r for r in ROWS if r["part"] == part][:count]]
        lines = []
        for source in rows:
            row = dict(source)
            image = row.pop("image")
            if images:
                shutil.copy(FORMS / image, folder / image)
                row["image"] = image
            if change:
                change(row)
            lines.append(json.dumps(row))
        (folder / "forms.jsonl").write_text("\n".join(lines))
        return folder

    return make


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Tiny encoders with random weights and the embedded models' tokenizer."""
    tokenizer = FormTokenizer.open(PUBLIC)
    base = tmp_path_factory.mktemp("encoders")

    def make(task: str, backbone: str = "layoutlm", modality: str = "unimodal", **more: Any) -> Path:
        values: dict[str, Any] = {
            "labels": ("answer", "header", "question") if task.startswith("ee") else (),
            "visual": VisualConfig(4, (4, 8), (1, 1), 32) if modality == "bimodal" else None,
            "hidden": 64 if backbone == "bros" else 16,
            "vocabulary": len(tokenizer.vocabulary),
            **more,
        }
        config = EncoderConfig(backbone, task, modality, layers=1, heads=2, intermediate=16, **values)  # type: ignore[arg-type]
        torch.manual_seed(1)
        folder = base / f"{task}-{backbone}-{modality}-{len(more)}"
        save_encoder(LoadedEncoder(FormEncoder(config), tokenizer, config), folder)
        return folder

    return make


def reconstruct(out: Path, *more: object, model: Path = PRIVATE, public: Path = PUBLIC, forms: Path = FORMS) -> int:
    given = ["--model", model, "--public", public, "--forms", forms, "--out", out, *more]
    return run(["reconstruct", *map(str, given)])


def results(out: Path) -> dict[str, Any]:
    return json.loads((out / "results.json").read_text())


def test_the_embedded_model_leaks_and_nothing_personal_leaves(tmp_path: Path, capsys: Capture) -> None:
    """Without a model, the embedded pair. Names and values stand nowhere, unless they shall be seen."""
    values = [
        " ".join(row["words"][f["start"] : f["stop"]]) for row in ROWS for f in row["fields"] if "planted" in f["id"]
    ]
    names = [row["id"] for row in ROWS] + [row["id"].split("_")[0] for row in ROWS]

    def told(out: Path, *more: str) -> str:
        given = ["--out", str(out), "--store", str(tmp_path / "store"), "--fields", "16", "--attempts", "2", *more]
        assert run(["reconstruct", *given]) == 1
        shown = capsys.readouterr()
        return "".join(
            [shown.out, shown.err, *((out / n).read_text() for n in ("results.json", "report.html", "run.json"))]
        )

    text = told(tmp_path / "masked")
    assert not [name for name in names if name in text]
    assert not [value for value in values if value in text]
    assert "LEAK       reconstruction.guesses" in text
    assert "32 fields: " in text
    assert "so all of them about" in text
    assert "128 fields filled, 0 fields reused" in text
    levels = [check["finding"]["level"] for check in results(tmp_path / "masked")["checks"]]
    assert levels == ["leak", "weak", "weak"]
    assert not list((tmp_path / "masked/evidence").iterdir())  # fewer forms than the smallest group

    text = told(tmp_path / "revealed", "--reveal")
    assert any(name in text for name in names)
    assert any(value in text for value in values)
    assert "0 fields filled, 128 fields reused" in text


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("task", "backbone"), [("ee-bio", "layoutlm"), ("ee-spade", "bros"), ("el", "bert"), ("mlm", "bros")]
)
def test_every_task_from_end_to_end(
    task: str, backbone: str, untrained: Callable[..., Path], few: Callable[..., Path], tmp_path: Path
) -> None:
    """An untrained model tells nothing about four forms, and says so."""
    out = tmp_path / "run"
    assert reconstruct(out, *SMALL, "-q", model=untrained(task, backbone), forms=few()) == 3
    found = results(out)
    assert [check["status"] for check in found["checks"]] == ["ran"] * 3
    assert found["target"]["family"] == backbone
    settings = found["checks"][0]["settings"]
    assert (settings["target task"], settings["attempts"], settings["fields"]) == (task, 2, 3)
    assert all("Too few documents to tell" in check["finding"]["text"] for check in found["checks"])
    assert found["checks"][0]["tables"][0]["title"] == "Put back within k guesses"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_results(few: Callable[..., Path], tmp_path: Path) -> None:
    forms = few()
    found = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        reconstruct(tmp_path / name, *SMALL, "-q", "--seed", seed, "--no-control", forms=forms)
        checks = results(tmp_path / name)["checks"]
        found.append([[check["metrics"], check["curves"]] for check in checks])
    assert found[0] == found[1] != found[2]


def records(store: Path) -> int:
    if not store.is_file():
        return 0
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
            return int(database.execute("SELECT count(*) FROM records").fetchone()[0])
    except sqlite3.Error:
        return 0


@pytest.mark.slow
def test_killed_it_goes_on_and_ends_with_the_same_results(
    commands: CommandServer, few: Callable[..., Path], tmp_path: Path
) -> None:
    whole, cut, forms = tmp_path / "whole", tmp_path / "cut", few(11, 10)
    more = ("--fields", "12", "--attempts", "2", "-q")
    code = reconstruct(whole, *more, forms=forms)
    command = ["reconstruct", "--model", PRIVATE, "--public", PUBLIC, "--forms", forms, "--out", cut, *more]
    process = commands.start(*command)
    deadline = time.monotonic() + 300
    while records(cut / "responses.sqlite") < 2 and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    assert commands.wait() == -signal.SIGKILL
    done = records(cut / "responses.sqlite")
    assert 2 <= done < 96 == records(whole / "responses.sqlite") - 1  # and the totals that were published
    assert not (cut / "results.json").exists()
    assert reconstruct(cut, *more, forms=forms) == code
    state = json.loads((cut / "run.json").read_text())
    assert (state["fields_filled"], state["fields_reused"]) == (96 - done, done)
    ends = [results(out) for out in (whole, cut)]
    assert [end["provenance"]["resumed"] for end in ends] == [False, True]
    assert [[c["metrics"], c["curves"], c["finding"]] for c in ends[0]["checks"]] == [
        [c["metrics"], c["curves"], c["finding"]] for c in ends[1]["checks"]
    ]


def test_noise_in_place_of_the_pages(untrained: Callable[..., Path], few: Callable[..., Path], tmp_path: Path) -> None:
    """What a bimodal model is shown changes what comes out; with noise no page is needed."""
    model = untrained("ee-bio", modality="bimodal")
    forms = few(images=True)
    for name, more in (("seen", ()), ("noise", ("--visual-noise",))):
        assert reconstruct(tmp_path / name, *SMALL, "-q", *more, model=model, forms=forms) == 3
    seen, noise = (results(tmp_path / name)["target"] for name in ("seen", "noise"))
    assert seen["notes"] == ["ee-bio, bimodal, float32"]
    assert noise["notes"] == ["ee-bio, bimodal, float32", "page features of noise"]
    assert seen["sha256"] != noise["sha256"]
    assert reconstruct(tmp_path / "blind", *SMALL, "-q", "--visual-noise", model=model, forms=few()) == 3
    assert results(tmp_path / "blind")["checks"][0]["status"] == "ran"


def test_a_page_that_cannot_be_seen_costs_its_form_alone(
    untrained: Callable[..., Path], few: Callable[..., Path], tmp_path: Path, capsys: Capture
) -> None:
    forms = few(images=True)
    broken = next(row for row in ROWS if row["part"] == "private")
    (forms / broken["image"]).write_bytes(b"no picture")
    assert reconstruct(tmp_path / "run", *SMALL, model=untrained("el", modality="bimodal"), forms=forms) == 3
    found = results(tmp_path / "run/private")
    assert found["datasets"][0]["parts"]["private"] == 3
    (problem,) = found["datasets"][0]["problems"]
    assert problem.startswith("page ")
    assert problem.endswith("and a bimodal model needs one")
    shown = capsys.readouterr().err
    assert "1 of the private and validation forms left out: a bimodal model cannot look at their page" in shown
    assert broken["id"] not in shown + json.dumps(found)


def test_epochs_labels_and_precision(few: Callable[..., Path], tmp_path: Path, capsys: Capture) -> None:
    for epoch in (5, 60):
        shutil.copytree(PRIVATE, tmp_path / f"epochs/epoch-{epoch:03d}")
    (tmp_path / "epochs/epoch-last").mkdir()
    more = ("--epochs", tmp_path / "epochs", "--label", "question", "--precision", "bf16", "--no-control")
    assert reconstruct(tmp_path / "run", *SMALL, *more, forms=few()) == 3
    check = results(tmp_path / "run")["checks"][1]
    assert [curve["series"][0]["x"] for curve in check["curves"]] == [[5, 60]]
    assert [row[0] for row in check["tables"][0]["rows"]] == ["question"]
    said = check["settings"]["precision"]
    assert re.fullmatch(
        r"(coarser: 3|float32: [0-2]) of 3 sampled fields come out as in float32, and the losses of their true values "
        r"differ by at most [0-9.e-]+ nats",
        said,
    )
    assert said.split(": ")[1] in capsys.readouterr().err


def refused(capsys: Capture, out: Path, code: int, message: str, *more: object, **given: Any) -> None:
    """One line, the right code, no results."""
    assert reconstruct(out, *SMALL, *more, "-q", **given) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert message in shown.err
    assert not (out / "results.json").exists()
    assert not (out / "report.html").exists()
    assert not [path for path in out.glob("**/*") if path.suffix == ".part"]


@pytest.mark.parametrize(
    ("missing", "message"),
    [("--public", "--public and --forms are missing"), ("--forms", "--forms is missing")],
)
def test_the_three_belong_together(missing: str, message: str, capsys: Capture, tmp_path: Path) -> None:
    given = ["reconstruct", "--model", str(PRIVATE), "--out", str(tmp_path / "run")]
    assert run([*given, *([] if missing == "--public" else ["--public", str(PUBLIC)])]) == 4
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_models_that_do_not_belong_together(
    untrained: Callable[..., Path], few: Callable[..., Path], tmp_path: Path, capsys: Capture
) -> None:
    out, forms = tmp_path / "run", few()
    other = tmp_path / "other"
    shutil.copytree(PUBLIC, other)
    pieces = (other / "vocab.txt").read_text().splitlines()
    (other / "vocab.txt").write_text("\n".join([*pieces[:-2], pieces[-1], pieces[-2]]))
    refused(capsys, out, 4, "have different vocabularies. Train them with the same tok", public=other, forms=forms)
    refused(capsys, out, 4, "(layoutlm, el) has no masked-language head", public=untrained("el"), forms=forms)
    shutil.copytree(other, tmp_path / "epochs/epoch-001")
    refused(capsys, out, 4, "epoch-001 and the target have different", "--epochs", tmp_path / "epochs", forms=forms)
    refused(capsys, out, 2, "holds no checkpoint of an epoch", "--epochs", forms, forms=forms)
    refused(capsys, out, 4, "no form has a field of label 'colour'. Choose among: an", "--label", "colour", forms=forms)
    refused(capsys, out, 4, "torch cannot use the device 'nowhere'", "--device", "nowhere", forms=forms)
    model = untrained("ee-bio", labels=("colour", "shape"))
    known = "knows no field label of the forms (answer, header, question), only colour, shape. Name the tag of each"
    refused(capsys, out, 2, known, model=model, forms=forms)
    refused(capsys, out, 4, "was trained on the private forms, so it is no public know", model=PUBLIC, public=PRIVATE)


SEVEN = ("O", "B-HEADER", "I-HEADER", "B-QUESTION", "I-QUESTION", "B-ANSWER", "I-ANSWER")


@pytest.mark.slow
def test_the_tags_of_funsd_and_a_label_map(
    untrained: Callable[..., Path], few: Callable[..., Path], tmp_path: Path, capsys: Capture
) -> None:
    """Seven tags and four labels: what has no tag is outside of fields, or has the tag that it is given."""

    def rename(row: Row) -> None:
        row["fields"] = [{**field, "label": field["label"].replace("header", "other")} for field in row["fields"]]

    forms, model = few(change=rename), untrained("ee-bio", labels=("HEADER", "QUESTION", "ANSWER"), tags=SEVEN)
    config = json.loads((model / "config.json").read_text())
    del config["pfl_audit"]
    (model / "config.json").write_text(json.dumps(config))
    said = "fields that the model has no tag for are read as outside of fields: other"
    found = {}
    for name, more in (
        ("plain", ()),
        ("mapped", ("--label-map", "other=B-HEADER")),
        ("out", ("--label-map", "other=O")),
    ):
        assert reconstruct(tmp_path / name, *SMALL, *more, "--no-control", model=model, forms=forms) == 3
        assert (said in capsys.readouterr().err) is (name != "mapped")
        found[name] = results(tmp_path / name)
        assert (said in found[name]["target"]["notes"]) is (name != "mapped")
        assert found[name]["checks"][0]["status"] == "ran"
    assert found["plain"]["target"]["sha256"] != found["mapped"]["target"]["sha256"]

    def map_refused(entry: str, message: str, **given: Any) -> None:
        given = {"model": model, "forms": forms, **given}
        refused(capsys, tmp_path / "run", 4, message, "--label-map", entry, **given)

    map_refused("header=O", "--label-map names the label 'header', which no form has. Choose among: answer, other, q")
    map_refused("other=KEY", "--label-map names the tag 'KEY', which the model does not have. Choose among: O, HEADER,")
    map_refused("other", "--label-map has no NAME=TAG: 'other'")
    map_refused("other=O", "a model for mlm has no tags, so --label-map maps nothing", model=PRIVATE)
    refused(capsys, tmp_path / "run", 4, "maps the label 'other' twice", "--label-map", "other=O", "--label-map",
            "other=HEADER", model=model, forms=forms)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Lilt", "LayoutLMv3"])
def test_encoders_with_the_vocabulary_of_roberta(
    kind: str, few: Callable[..., Path], tmp_path: Path, capsys: Capture
) -> None:
    """A tagger of transformers as the target, and a RoBERTa beside it."""
    tags = ["O", *(f"{part}-{label}" for label in ("ANSWER", "QUESTION") for part in "BIES")]
    saved(tmp_path / "target", kind, tags)
    saved(tmp_path / "public", "Roberta")
    given = {"model": tmp_path / "target", "public": tmp_path / "public", "forms": few(images=True)}
    assert reconstruct(tmp_path / "run", *SMALL, "--set", "reconstruction.longest=40", "--no-control", **given) == 3
    found = results(tmp_path / "run")
    assert found["target"]["family"] == kind.lower()
    assert found["checks"][0]["status"] == "ran"
    assert "read as outside of fields: header" in capsys.readouterr().err
    assert run(["inspect", str(tmp_path / "target"), "--json"]) == 0
    assert "form loss" in json.loads(capsys.readouterr().out)["capabilities"]
    refused(capsys, tmp_path / "other", 4, "have different vocabularies", **{**given, "public": PUBLIC})
    start = ["train", "--task", "mlm", "--data", str(given["forms"]), "--from", str(tmp_path / "public")]
    assert run([*start, "--out", str(tmp_path / "trained")]) == 4
    assert "training does not begin with a roberta. Give a BERT, LayoutLM or BROS" in capsys.readouterr().err


def test_models_that_are_none(few: Callable[..., Path], tmp_path: Path, capsys: Capture) -> None:
    out, forms = tmp_path / "run", few()
    damaged, answers = tmp_path / "damaged", tmp_path / "qa"
    for folder in (damaged, answers):
        shutil.copytree(PRIVATE, folder)
    content = (damaged / "model.safetensors").read_bytes()
    (damaged / "model.safetensors").write_bytes(content[: len(content) // 2])
    config = json.loads((answers / "config.json").read_text())
    (answers / "config.json").write_text(
        json.dumps({**config, "architectures": ["LayoutLMForQuestionAnswering"], "pfl_audit": {}})
    )
    refused(capsys, out, 4, "nothing does not exist", model=tmp_path / "nothing", forms=forms)
    refused(capsys, out, 2, "damaged", model=damaged, forms=forms)
    refused(capsys, out, 2, "['LayoutLMForQuestionAnswering'] has none of the heads", model=answers, forms=forms)
    refused(capsys, out, 3, "that family offers no reading of forms", public=FIXTURES / "vt5-finetuned", forms=forms)
    shutil.copytree(damaged, tmp_path / "epochs/epoch-003")
    refused(capsys, out, 2, "epoch-003", "--epochs", tmp_path / "epochs", forms=forms)


def test_forms_that_are_none(
    untrained: Callable[..., Path], few: Callable[..., Path], tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "run"
    refused(capsys, out, 2, "holds no forms", forms=FIXTURES / "red")
    refused(capsys, out, 3, "none of the 3 forms is in the private part", forms=few(0))
    alike = few(2, 1, change=lambda row: (row.pop("part"), row.update(id=f"form_{row['id'][:4]}")))
    refused(capsys, out, 2, "4 forms of 1 documents (ids are read as document_page) leave the", forms=alike)
    model = untrained("el", modality="bimodal")
    refused(capsys, out, 3, "none of the 4 private forms has a page image", model=model, forms=few())
    (few() / "forms.jsonl").write_text('{"id": "a_1", "words": 3}\n{\n')
    refused(capsys, out, 2, "no form that can be used", forms=tmp_path / "forms")


def test_a_store_of_another_program(few: Callable[..., Path], tmp_path: Path, capsys: Capture) -> None:
    with sqlite3.connect(tmp_path / "store") as database:
        database.execute("CREATE TABLE bookmarks (a)")
    refused(capsys, tmp_path / "run", 2, "is another program's database", "--store", tmp_path / "store", forms=few())


@pytest.mark.slow
def test_forms_that_it_was_not_trained_on_are_noted(few: Callable[..., Path], tmp_path: Path, capsys: Capture) -> None:
    assert reconstruct(tmp_path / "run", *SMALL, forms=few()) == 3
    assert "training.json names other forms than the private part; check --forms" in capsys.readouterr().err
    assert "training.json names other forms than the private part" in results(tmp_path / "run")["target"]["notes"]

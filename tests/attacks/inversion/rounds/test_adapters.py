"""Audits of messages of adapters: later rounds give their words away, and other messages say why they do not."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.cli.main import run
from tests.attacks.inversion.rounds.federations import (
    FIXTURES,
    Federation,
    audit,
    check,
    copy_of,
    messages,
    put_noise,
    training,
)

ADAPTERS = ["--lora", "6", "--optimizer", "sgd", "--learning-rate", "0.05", "--rounds", "2"]


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    """A step of SGD on adapters without dropout, on one question about a short page, in each of two rounds."""
    return federation(tmp_path_factory.mktemp("adapted"), "vt5-pretrained")


@pytest.fixture(scope="module")
def adapted_donut(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    """The same of a Donut, whose messages hold nothing but adapters of the decoder."""
    return federation(tmp_path_factory.mktemp("donut"), "donut")


def federation(folder: Path, model: str) -> Federation:
    corpus, out = folder / "data", folder / "ckpt"
    sizes = {"members": 24, "non-members": 8, "red-providers": 8, "documents": 2, "red-documents": 1, "questions": 2}
    chosen = [part for name, size in sizes.items() for part in (f"--{name}", str(size))]
    assert run(["data", "make", "--out", str(corpus), "--kind", "tables", *chosen, "--clients", "4", "-q"]) == 0
    shutil.copytree(FIXTURES / model, folder / "start")
    config = folder / "start/config.json"
    config.write_text(json.dumps(without_dropout(json.loads(config.read_text()))))
    assert run(["train", *training(corpus, str(folder / "start"), out), *ADAPTERS, "--lora-dropout", "0"]) == 0
    return corpus, out


def without_dropout(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration whose rates of dropout are zero, those of its parts too."""
    parts = {name: without_dropout(part) for name, part in config.items() if isinstance(part, dict)}
    rates = dict.fromkeys((name for name in config if "drop" in name and not isinstance(config[name], dict)), 0.0)
    return {**config, **parts, **rates}


@pytest.mark.slow
def test_adapters_of_a_donut_give_questions_and_answers_away(adapted_donut: Federation, tmp_path: Path) -> None:
    """Weight decay adds a share of the halves A to their rows, which is taken out."""
    _, results = audit(adapted_donut, tmp_path / "later", "--rounds", "2")
    recall, precision = tokens_of(results)
    assert check(results)["finding"]["level"] == "leak"
    assert recall is not None
    assert recall > 0.5
    assert precision == 1.0
    _, results = audit(adapted_donut, tmp_path / "first", "--rounds", "1")
    assert tokens_of(results)[0] == 0.0
    assert all("the halves B are zero, as in the first round" in row[-1] for row in check(results)["tables"][1]["rows"])


def tokens_of(results: dict[str, Any]) -> tuple[float | None, float | None]:
    values = {metric["name"]: metric["value"] for metric in check(results)["metrics"]}
    return values.get("tokens in any order, recall"), values.get("tokens in any order, precision")


def test_adapters_of_a_later_round_give_the_words_of_their_pages_away(adapted: Federation, tmp_path: Path) -> None:
    _, results = audit(adapted, tmp_path / "run", "--rounds", "2")
    assert check(results)["finding"]["level"] == "leak"
    recall, precision = tokens_of(results)
    assert recall is not None
    assert recall > 0.5  # pages with more pieces than there is room for give none
    assert precision == 1.0
    values = {metric["name"]: metric["value"] for metric in check(results)["metrics"]}
    assert values["tokens in any order, of noise"] == 0.0


@pytest.mark.slow
def test_adapters_of_the_first_round_give_no_words_away(adapted: Federation, tmp_path: Path) -> None:
    _, results = audit(adapted, tmp_path / "run", "--rounds", "1")
    assert tokens_of(results)[0] == 0.0
    assert all("the halves B are zero, as in the first round" in row[-1] for row in check(results)["tables"][1]["rows"])


def test_adapters_in_the_place_of_other_clients_are_no_leak(adapted: Federation, tmp_path: Path) -> None:
    out = copy_of(adapted[1], tmp_path)
    paths = messages(out)[4:]
    held = [path.read_bytes() for path in paths]
    for path, content in zip(paths, [*held[1:], held[0]], strict=True):
        path.write_bytes(content)
    _, results = audit((adapted[0], out), tmp_path / "run", "--rounds", "2")
    assert check(results)["finding"]["level"] == "unresolved"


@pytest.mark.slow
def test_noise_in_the_place_of_adapters_names_nothing(adapted: Federation, tmp_path: Path) -> None:
    out = copy_of(adapted[1], tmp_path)
    for path in messages(out)[4:]:
        put_noise(path, 1e-3)
    _, results = audit((adapted[0], out), tmp_path / "run", "--rounds", "2")
    assert check(results)["finding"]["level"] == "unresolved"
    assert tokens_of(results) == (0.0, None)


@pytest.mark.slow
def test_dropout_of_adapters_is_named_as_the_cause(adapted: Federation, tmp_path: Path) -> None:
    corpus, out = adapted[0], tmp_path / "ckpt"
    assert run(["train", *training(corpus, str(adapted[1].parent / "start"), out), *ADAPTERS]) == 0
    _, results = audit((corpus, out), tmp_path / "run", "--rounds", "2")
    assert tokens_of(results)[0] == 0.0
    said = [row[-1] for row in check(results)["tables"][1]["rows"]]
    assert sum("the inputs of adapters have dropout of 0.1" in limits for limits in said) == len(said)


@pytest.mark.slow
def test_dropout_of_the_model_is_named_as_the_cause_of_boxes(adapted: Federation, tmp_path: Path) -> None:
    """Its rate is that of the checkpoint; without it, it would have to be found in every message."""
    corpus, out = adapted[0], tmp_path / "ckpt"
    assert run(["train", *training(corpus, "vt5-pretrained", out), *ADAPTERS, "--lora-dropout", "0"]) == 0
    _, results = audit((corpus, out), tmp_path / "run", "--rounds", "1")
    said = [row[-1] for row in check(results)["tables"][1]["rows"]]
    assert all("boxes: the inputs have dropout of 0.1" in limits for limits in said)
    assert not any("another model" in limits for limits in said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--optimizer", "adamw"], "all numbers are of one size, as after a step of Adam"),
        (["--optimizer", "sgd", "--codec", "nf4"], "the update is quantised"),
        (["--optimizer", "sgd", "--lora-parts", "up"], "no gradient of the spatial matcher"),
    ],
)
def test_why_adapters_name_no_word_is_said(options: list[str], said: str, adapted: Federation, tmp_path: Path) -> None:
    corpus, out = adapted[0], tmp_path / "ckpt"
    start = str(adapted[1].parent / "start")
    given = ["--lora", "6", "--lora-dropout", "0", "--rounds", "2", *options]
    assert run(["train", *training(corpus, start, out), *given]) == 0
    _, results = audit((corpus, out), tmp_path / "run", "--rounds", "2")
    assert check(results)["finding"]["level"] != "leak" or tokens_of(results)[0] == 0.0
    assert all(said in row[-1] for row in check(results)["tables"][1]["rows"])

"""Every family that can be trained: what moves, what comes out, and that it can be audited."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from pfl_audit.cli.main import run
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.open import family_of, open_gradient_model
from pfl_audit.models.training_protocol import DivisibleSet, QuestionModel, TrainableFamily
from pfl_audit.models.weights import fingerprint_files, read_state
from pfl_audit.progress import Silent
from pfl_audit.training.parts import split_queries
from tests.models.donut.conftest import make_donut
from tests.models.layoutlm.conftest import make_qa

__all__ = ["make_donut", "make_qa"]
FIXTURES = Path(__file__).parents[2] / "fixtures"
KINDS = ("ours", "theirs", "v1", "v1-bpe", "v3", "v3-blind")
QUICK = ("--batch-size", "4", "--learning-rate", "1e-3", "-q")
PRIVATE = ("--sigma", "0.8", "--clip", "0.1", "--provider-rate", "0.5", "--noise-seed", "1", "--public-providers", "12")
ROUNDS = ("--rounds", "1", "--local-steps", "1")


@pytest.fixture
def make(make_donut: Callable[[str], Path], make_qa: Callable[[str], Path]) -> Callable[[str], Path]:
    return lambda kind: make_donut(kind) if kind in ("ours", "theirs") else make_qa(kind)


def opened(folder: Path, *, train_visual: bool = False) -> QuestionModel:
    family = family_of(folder)
    assert isinstance(family, TrainableFamily)
    return family.open_training(folder, device="cpu", train_visual=train_visual)


def train(corpus: Path, start: Path, out: Path, *words: str) -> dict[str, Any]:
    assert run(["train", "--data", str(corpus), "--from", str(start), "--out", str(out), *QUICK, *words]) == 0
    return json.loads((out / "training.json").read_text())


def changed(before: Path, after: Path) -> set[str]:
    old, new = read_state(before), read_state(after)
    assert set(new) == {name for name in old if not name.endswith("relative_position_index")}
    return {name for name in new if not torch.equal(old[name], new[name])}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS)
def test_central_training_moves_what_is_not_frozen(
    kind: str, make: Callable[[str], Path], corpus_folder: Path, tmp_path: Path
) -> None:
    record = train(corpus_folder, make(kind), tmp_path / "out", "--steps", "3", "--validate-every", "3")
    moved = changed(make(kind), tmp_path / "out")
    assert moved
    assert not any(name.startswith("encoder.") or ".pooler." in name or ".rel_pos_" in name for name in moved)
    assert {"anls", "accuracy"} <= set(record["history"][-1])
    assert family_of(tmp_path / "out").name == family_of(make(kind)).name
    open_gradient_model(str(tmp_path / "out"))


@pytest.mark.parametrize(("kind", "targets"), [("ours", (".q_proj.", ".v_proj.")), ("v3", (".query.", ".value."))])
def test_adapters_are_placed_by_the_family_and_merged(
    kind: str, targets: Sequence[str], make: Callable[[str], Path], corpus_folder: Path, tmp_path: Path
) -> None:
    record = train(corpus_folder, make(kind), tmp_path / "out", "--mode", "fl", "--lora", "2", *ROUNDS)
    moved = changed(make(kind), tmp_path / "out")
    assert record["lora"] == 2
    assert any(target in name for name in moved for target in targets)
    assert all(name.startswith("qa_outputs.") or any(target in name for target in targets) for name in moved)
    assert (tmp_path / "out/adapters/adapter_model.safetensors").is_file()


@pytest.mark.parametrize("kind", ["ours", "v1", "v3"])
def test_the_loss_of_a_batch_is_that_of_its_examples(
    kind: str, make: Callable[[str], Path], corpus_folder: Path
) -> None:
    model = opened(make(kind), train_visual=kind == "ours")
    queries, _ = split_queries(open_corpus(corpus_folder, "blue"))
    some = sorted(queries, key=model.length)[:: len(queries) // 3][:3]
    examples = model.examples(some, Silent())
    alone = torch.stack([examples.loss([row]) for row in range(3)])
    weights = torch.ones(3)
    if kind == "ours":  # the mean over all answer tokens, as transformers takes it
        weights = torch.tensor([float((model.example(query).tensors["labels"] >= 0).sum()) for query in some])
    torch.testing.assert_close(examples.loss([0, 1, 2]), (alone * weights).sum() / weights.sum(), rtol=1e-4, atol=1e-5)
    assert isinstance(examples, DivisibleSet)
    shares = examples.part_loss([0, 1, 2], [0, 2]) + examples.part_loss([0, 1, 2], [1])
    torch.testing.assert_close(shares, examples.loss([0, 1, 2]), rtol=1e-4, atol=1e-5)


def test_the_encoder_of_a_donut_is_trained_where_it_is_wanted(
    make: Callable[[str], Path], corpus_folder: Path, tmp_path: Path
) -> None:
    train(corpus_folder, make("ours"), tmp_path / "out", "--steps", "2", "--train-visual")
    assert any(name.startswith("encoder.") for name in changed(make("ours"), tmp_path / "out"))


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        ("v3", ["--train-visual"], "no visual encoder that could be frozen"),
        ("v3", ["--refuse", "0.5"], "cannot write 'not on this page'"),
        ("ours", ["--lora", "2", "--train-visual"], "--lora keeps the visual encoder frozen"),
    ],
)
def test_what_a_family_cannot_do_is_refused_in_one_line(
    kind: str,
    words: list[str],
    message: str,
    make: Callable[[str], Path],
    corpus_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    start, out = str(make(kind)), str(tmp_path / "out")
    assert run(["train", "--data", str(corpus_folder), "--from", start, "--out", out, "-q", *words]) == 4
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_private_run_that_is_repeated_is_the_same(
    make: Callable[[str], Path], corpus_folder: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        record = train(corpus_folder, make("v3"), tmp_path / name, "--mode", "fl-dp", *PRIVATE, *ROUNDS)
        assert record["privacy"]["unit"] == "provider"
        assert record["privacy"]["epsilon"] > 0
    one, two = (fingerprint_files(tmp_path / name) for name in ("one", "two"))
    assert one == two


@pytest.mark.slow
def test_a_private_donut_is_audited_by_invert(corpus_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "donut"
    record = train(corpus_folder, FIXTURES / "donut", out, "--mode", "fl-dp", "--lora", "2", *PRIVATE, *ROUNDS)
    assert record["privacy"]["epsilon"] > 0
    template = str(FIXTURES / "templates" / "form-01" / "template.png")
    audit = ["invert", "--model", str(out), "--template", template, "--method", "text", "--out", str(tmp_path / "run")]
    assert run([*audit, "--documents", "1", "-q"]) in (0, 1)
    results = json.loads((tmp_path / "run/results.json").read_text())
    assert [check["status"] for check in results["checks"]] == ["ran"]


@pytest.mark.slow
def test_a_private_layoutlmv3_is_audited_by_mia(
    make: Callable[[str], Path], corpus_folder: Path, red: Corpus, tmp_path: Path
) -> None:
    out = tmp_path / "layoutlmv3"
    record = train(corpus_folder, make("v3"), out, "--mode", "fl-dp", *PRIVATE, *ROUNDS)
    assert record["privacy"]["delta"] == 1e-5
    audit = ["mia", "--model", str(out), "--red", str(corpus_folder), "--out", str(tmp_path / "run"), "-q"]
    assert run([*audit, "--seeds", "1", "--s", "0"]) in (0, 1, 3)
    results = json.loads((tmp_path / "run/results.json").read_text())
    assert results["target"]["family"] == "layoutlmv3"
    assert any(check["status"] == "ran" for check in results["checks"])

"""Training of models that take no question: what moves, what an example is, and what cannot be trained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pfl_audit.cli.main import run
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError
from pfl_audit.models.open import family_of, open_model
from pfl_audit.models.training_protocol import TrainableFamily
from pfl_audit.models.weights import read_state
from pfl_audit.progress import Silent
from pfl_audit.training.parts import split_queries
from tests.models.donut_fields.conftest import start
from tests.models.tagger.conftest import tagger

__all__ = ["start", "tagger"]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    from pfl_audit.models.auto.examine import look

    monkeypatch.setattr("pfl_audit.models.tagger.load.examine", lambda folder: look(str(folder)))


@pytest.fixture(params=["donut", "layoutlmv3"])
def begin(request: pytest.FixtureRequest, start: Path, tagger: Callable[..., Path]) -> Path:
    return start if request.param == "donut" else tagger("layoutlmv3")


def opened(folder: Path) -> Any:
    family = family_of(folder)
    assert isinstance(family, TrainableFamily)
    return family.open_training(folder, device="cpu", train_visual=False)


def training_queries(corpus_folder: Path) -> list[Query]:
    return list(split_queries(open_corpus(corpus_folder, "blue"))[0])


@pytest.mark.sampled(1)
def test_training_moves_what_is_not_frozen_and_the_model_can_be_audited(
    begin: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = ["train", "--data", str(corpus_folder), "--from", str(begin), "--out", str(out), "-q"]
    command += ["--steps", "3", "--batch-size", "4", "--learning-rate", "1e-3", "--validate-every", "3"]
    assert run(command) == 0
    record = json.loads((out / "training.json").read_text())
    assert {"anls", "accuracy"} <= set(record["history"][-1])
    old, new = read_state(begin), read_state(out)
    moved = {name for name in new if not torch.equal(old[name], new[name])}
    assert moved
    assert not any(name.startswith("encoder.") or ".rel_pos_" in name for name in moved)
    assert family_of(out).name == family_of(begin).name
    query = next(one for one in open_corpus(corpus_folder, "red").queries if one.key == "provider_name")
    assert open_model(str(out)).respond([query])[0].loss


def test_an_example_is_the_page_with_all_its_fields(begin: Path, corpus_folder: Path) -> None:
    model, queries = opened(begin), training_queries(corpus_folder)
    page = next(query.document for query in queries if query.key == "provider_name")
    some = [query for query in queries if query.document.id == page.id]
    known = [query for query in some if model.has_field(query)]
    assert len(known) > 1
    tokens = [int((model.example(known[0]).tensors["labels"] > 0).sum())]
    examples = model.examples(some, Silent())
    labels = [model.example(query).tensors["labels"] for query in known]
    assert all(torch.equal(labels[0], other) for other in labels)
    assert len(examples) == len(some)
    assert torch.isfinite(examples.loss([0, 1]))
    shares = examples.part_loss([0, 1], [0]) + examples.part_loss([0, 1], [1])
    torch.testing.assert_close(shares, examples.loss([0, 1]), rtol=1e-4, atol=1e-5)
    tokens.append(int((labels[0] > 0).sum()))
    assert tokens[0] < tokens[1]  # alone, a query has its own field


def test_a_tagger_learns_labels_of_first_tokens_alone(tagger: Callable[..., Path], corpus_folder: Path) -> None:
    model, queries = opened(tagger("layoutlmv3")), training_queries(corpus_folder)
    query = next(one for one in queries if one.key == "invoice_number")
    labels = model.example(query).tensors["labels"][0]
    (window,) = model.inputs.windows(query.document)
    assert (labels >= 0).nonzero().flatten().tolist() == list(window.firsts)
    field = [window.words[window.firsts.index(place)] for place in (labels > 0).nonzero().flatten().tolist()]
    assert " ".join(query.document.words[word] for word in field).lower() == query.answers[0].lower()


def test_a_corpus_without_a_key_of_the_model_is_refused(begin: Path, corpus_folder: Path) -> None:
    queries = [query for query in training_queries(corpus_folder) if query.key == "due_date"]
    with pytest.raises(AuditError, match="no field of any key of the corpus"):
        opened(begin).examples(queries, Silent())


def test_a_tagger_has_no_visual_encoder_to_train(
    tagger: Callable[..., Path], corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "--data", str(corpus_folder), "--from", str(tagger("lilt")), "--out", str(tmp_path / "out")]
    assert run([*command, "--train-visual", "-q"]) == 4
    assert "no visual encoder that could be frozen" in capsys.readouterr().err

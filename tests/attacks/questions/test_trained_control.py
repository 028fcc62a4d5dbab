"""``--train-control``: a control that is trained on non-members that leave the audit."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.attacks.questions.inputs import QuestionInputs
from pfl_audit.attacks.questions.trained_control import UNITS_FILE, require_unseen, train_control
from pfl_audit.cli.main import run
from pfl_audit.core.results import read_results
from pfl_audit.core.sharding import Share
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.subject import AuditJob
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import NotAuditableError, UsageError
from pfl_audit.fitness import spare
from pfl_audit.progress import Silent
from pfl_audit.training import run as training_run

Make = Callable[[int], Path]


@pytest.fixture
def job(tmp_path: Path) -> AuditJob:
    store = ResponseStore(tmp_path / "responses.sqlite")
    return AuditJob(
        model=None, device="cpu", download=False, seed=0, store=store, states=tmp_path / "states", progress=Silent()
    )


@pytest.fixture
def inputs(make_checkpoint: Make, monkeypatch: pytest.MonkeyPatch) -> QuestionInputs:
    monkeypatch.setattr(spare, "FEWEST", 1)  # the corpus of the tests has few companies
    return QuestionInputs(pretrained=str(make_checkpoint(1)), train_control=True, train_control_steps=2)


def weights(inputs: QuestionInputs) -> Path:
    return Path(str(inputs.control)) / "model.safetensors"


def test_the_control_is_trained_on_no_company_that_is_attacked(
    job: AuditJob, inputs: QuestionInputs, red: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    train = training_run.train_central_phases

    def spy(training: Any, *others: Any) -> Any:
        seen.extend(training.train)
        return train(training, *others)

    monkeypatch.setattr(training_run, "train_central_phases", spy)
    left, given, told = train_control(inputs, job, red, None, {})
    pages, companies = {query.document.id for query in seen}, {query.document.provider for query in seen}
    assert companies
    assert companies <= set(red.non_members())
    assert not companies & set(left.units)
    assert not pages & {page.id for page in left.documents}
    assert left.members() == red.members()
    assert {*left.non_members(), *companies} == set(red.non_members())
    assert f"{len(companies)} non-member providers, which left the audit" in told
    record = json.loads((Path(str(given.control)) / "training.json").read_text())
    assert (record["lora"], record["data"]["providers"], record["steps"]) == (8, len(companies), 2)
    assert weights(given).read_bytes() != (Path(str(inputs.pretrained)) / "model.safetensors").read_bytes()


def test_a_control_is_trained_once_for_the_same_documents_start_and_settings(
    job: AuditJob, inputs: QuestionInputs, red: Corpus, make_checkpoint: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, first, _ = train_control(inputs, job, red, None, {})
    trained = []
    monkeypatch.setattr(training_run, "_train", lambda run, *others: trained.append(run.out) or {})
    again, second, _ = train_control(inputs, job, red, None, {})
    assert (second.control, again.digest, trained) == (first.control, left.digest, [])
    for other in ({"train_control_steps": 3}, {"pretrained": str(make_checkpoint(2))}):
        train_control(inputs.model_copy(update=other), job, red, None, {})
    train_control(inputs, replace(job, seed=1), red, None, {})
    train_control(inputs, job, red.where(lambda query: query.key != "total_amount"), None, {})
    assert len({*trained, Path(str(first.control))}) == 5


def test_a_control_needs_non_members_to_spare(
    job: AuditJob, inputs: QuestionInputs, red: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spare, "FEWEST", 20)
    with pytest.raises(NotAuditableError, match="60 non-member providers of which none belong together"):
        train_control(inputs, job, red, None, {})
    assert not (job.states / "controls").exists()


@pytest.mark.parametrize(
    ("change", "elsewhere", "said"),
    [
        ({"control": "x"}, {}, "--train-control and --control are both a control"),
        ({"pretrained": None}, {}, "begins with a checkpoint folder"),
        ({"pretrained": "a/hub-id"}, {}, "begins with a checkpoint folder"),
        ({}, {"share": Share(1, 2)}, "a control is trained on one machine"),
        ({}, {"cluster": "auto"}, "a control is trained on one machine"),
    ],
)
def test_inputs_that_contradict_a_trained_control(
    job: AuditJob, inputs: QuestionInputs, red: Corpus, change: dict[str, Any], elsewhere: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        train_control(inputs.model_copy(update=change), replace(job, **elsewhere), red, None, {})


def test_a_control_of_another_audit_is_refused_where_its_companies_are_attacked(
    job: AuditJob, inputs: QuestionInputs, red: Corpus
) -> None:
    left, given, _ = train_control(inputs, job, red, None, {})
    taught = len(red.units) - len(left.units)
    with pytest.raises(
        UsageError, match=f"on what is audited: {taught} of the providers, by --train-control of another"
    ):
        require_unseen("--control", str(given.control), None, red, None)
    require_unseen("--control", str(given.control), None, left, None)
    names = (Path(str(given.control)) / UNITS_FILE).read_text()
    assert not any(unit in names for unit in red.units)


def record(folder: Path, *digests: str) -> str:
    """A checkpoint whose record names its own documents, then those of the models before it."""
    folder.mkdir()
    (folder / "training.json").write_text(json.dumps({"data": {"sha256": digests[0], "before": digests[1:]}}))
    return str(folder)


def test_a_control_whose_record_names_what_is_audited_is_refused(
    red: Corpus, corpus_folder: Path, tmp_path: Path
) -> None:
    blue = open_corpus(corpus_folder, "blue")
    target = record(tmp_path / "target", "a" * 64, "c" * 64)
    require_unseen("--control", record(tmp_path / "out", "b" * 64, "c" * 64), target, red, blue)  # of one pre-training
    refused = [record(tmp_path / str(at), "d" * 64, digest) for at, digest in enumerate((red.digest, blue.digest))]
    for other in (*refused, record(tmp_path / "same", "a" * 64)):
        with pytest.raises(UsageError, match="--reference was trained on what is audited: RED, or the training set"):
            require_unseen("--reference", other, target, red, blue)
    later = record(tmp_path / "later", "d" * 64, "a" * 64)  # such as a model that was fine-tuned from the target
    require_unseen("--control", later, target, red, blue)
    with pytest.raises(UsageError, match="the training set of the model under audit"):
        require_unseen("--control", later, target, red, None)
    (Path(target) / "training.json").write_text("no record")
    require_unseen("--control", "a/hub-id", target, red, None)


def test_such_a_control_ends_an_audit_with_one_line(
    corpus_folder: Path, make_checkpoint: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, control = (shutil.copytree(make_checkpoint(seed), tmp_path / str(seed)) for seed in (0, 1))
    for folder in (target, control):
        (folder / "training.json").write_text(json.dumps({"data": {"sha256": "a" * 64}}))
    given = ["--model", str(target), "--red", str(corpus_folder), "--control", str(control)]
    assert run(["audit", *given, "--out", str(tmp_path / "run"), "-q"]) == 4
    said = capsys.readouterr().err.strip()
    assert "the model of --control was trained on what is audited" in said
    assert "\n" not in said


@pytest.mark.slow
def test_an_audit_with_a_control_of_its_own(
    inputs: QuestionInputs, corpus_folder: Path, make_checkpoint: Make, tmp_path: Path, red: Corpus
) -> None:
    arguments = [
        "audit", "--model", str(make_checkpoint(0)), "--red", str(corpus_folder), "--pretrained", inputs.pretrained,
        "--train-control", "--train-control-steps", "2", "--check", "memorization.generalisation",
        "--out", str(tmp_path / "run"), "--fail-on", "never", "-q",
    ]  # fmt: skip
    assert run([str(one) for one in arguments]) in (0, 3)
    results = read_results(tmp_path / "run/private")
    (data,) = results.datasets
    assert results.control is not None
    assert results.control.sha256 != results.target.sha256
    assert data.members == len(red.members())
    assert data.non_members < len(red.non_members())
    assert "which left the audit" in str(data.facts["control"])


def test_too_few_non_members_end_an_audit_with_one_line(
    corpus_folder: Path, make_checkpoint: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--model", str(make_checkpoint(0)), "--red", str(corpus_folder), "--pretrained", str(make_checkpoint(1))]
    assert run(["audit", *given, "--train-control", "--out", str(tmp_path / "run"), "-q"]) == 3
    said = capsys.readouterr().err.strip()
    assert "non-members can be spared to train a control" in said
    assert "\n" not in said

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pfl_audit.documents.forms.form import FormCorpus
from pfl_audit.documents.forms.partition import partition_forms
from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.documents.forms.readers.jsonl import write_forms
from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from pfl_audit.models.encoders.checkpoint import open_encoder
from pfl_audit.models.encoders.network import FormEncoder
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.encoders.vocabulary import train_vocabulary
from pfl_audit.progress import Silent
from pfl_audit.training.forms import begin
from pfl_audit.training.forms.model import TrainableEncoder
from pfl_audit.training.forms.run import FormRun, run_form_training
from pfl_audit.training.forms.settings import FormTrainSettings
from pfl_audit.training.loop import STATE_FILE

TINY = FormTrainSettings(size="tiny", vocabulary=200, batch_size=2, epochs=3, learning_rate=1e-3)


def train(data: Path, out: Path, settings: FormTrainSettings = TINY, start: Path | None = None) -> dict[str, Any]:
    return run_form_training(FormRun(data, out, start), settings, Silent())


class Cut(Silent):
    """Interrupts at a step."""

    def __init__(self, step: int) -> None:
        self.left = step

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Any]:
        yield self

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.left -= amount
        if not self.left:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def public(forms_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A public MLM, trained for an epoch."""
    out = tmp_path_factory.mktemp("public")
    train(forms_folder, out, replace(TINY, part="public", epochs=1))
    return out / "best-loss"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("task", "backbone", "modality"),
    [
        ("mlm", "layoutlm", "bimodal"),
        ("mlm", "bros", "unimodal"),
        ("mlm", "bert", "bimodal"),
        ("ee-bio", "layoutlm", "unimodal"),
        ("ee-bio", "bert", "unimodal"),
        ("ee-spade", "bros", "bimodal"),
        ("el", "layoutlm", "unimodal"),
        ("el", "bros", "bimodal"),
    ],
)
def test_every_task_trains_every_tensor_and_its_checkpoint_opens(
    forms_folder: Path, tmp_path: Path, task: Any, backbone: Any, modality: Any
) -> None:
    settings = replace(TINY, task=task, backbone=backbone, modality=modality, epochs=1)
    record = train(forms_folder, tmp_path, settings)
    opened = open_encoder(tmp_path / "best-precision")
    assert (opened.config.task, opened.config.backbone, opened.config.modality) == (task, backbone, modality)
    assert record["data"]["forms"] == {"validation": 3, "public": 4, "private": 4}


def test_a_few_forms_are_memorised(forms_folder: Path, tmp_path: Path) -> None:
    record = train(forms_folder, tmp_path, replace(TINY, task="ee-bio", epochs=15, learning_rate=2e-3, keep_every=15))
    assert record["history"][-1]["loss"] < 0.1 < 1.0 < record["history"][0]["loss"]
    model = TrainableEncoder(open_encoder(tmp_path / "epoch-015"), "cpu", batch_size=2)
    private = partition_forms(open_forms(forms_folder), seed=0).private
    assert model.validate(model.maker.windows(private))["accuracy"] > 0.95


@pytest.mark.slow
def test_masked_tokens_are_learnt(forms_folder: Path, tmp_path: Path) -> None:
    history = train(forms_folder, tmp_path, replace(TINY, epochs=16, learning_rate=3e-3))["history"]
    assert history[-1]["loss"] < 0.7 * history[0]["loss"]
    assert history[-1]["accuracy"] > 2 * history[0]["accuracy"]


@pytest.mark.slow
def test_a_run_that_was_cut_ends_with_the_same_weights(
    forms_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(begin.SIZES, "tiny", {**begin.SIZES["tiny"], "text": {}})  # type: ignore[attr-defined] # dropout
    settings = replace(TINY, modality="bimodal", keep_every=3)
    whole = train(forms_folder, tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):  # in the middle of the second epoch
        run_form_training(FormRun(forms_folder, tmp_path / "cut"), settings, Cut(3))
    assert (tmp_path / "cut" / STATE_FILE).is_file()
    resumed = train(forms_folder, tmp_path / "cut", settings)
    assert resumed == whole
    for name in ("best-precision", "best-loss", "epoch-003"):
        expected = load_file(tmp_path / "whole" / name / "model.safetensors")
        for key, tensor in load_file(tmp_path / "cut" / name / "model.safetensors").items():
            torch.testing.assert_close(tensor, expected[key], atol=0, rtol=0)
    assert not (tmp_path / "cut" / STATE_FILE).exists()


def test_each_criterion_keeps_the_model_of_its_epoch(
    forms_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([(0.1, 3.0), (0.4, 1.0), (0.6, 2.0), (0.5, 4.0)])

    def scripted(*args: Any) -> dict[str, float]:
        accuracy, loss = next(looks)
        return {"accuracy": accuracy, "validation_loss": loss}

    monkeypatch.setattr(TrainableEncoder, "validate", scripted)
    record = train(forms_folder, tmp_path, replace(TINY, epochs=4, keep_every=1))
    assert {name: chosen["epoch"] for name, chosen in record["chosen"].items()} == {"precision": 3, "loss": 2}
    for criterion, epoch in (("precision", 3), ("loss", 2)):
        kept = load_file(tmp_path / f"best-{criterion}/model.safetensors")
        same = load_file(tmp_path / f"epoch-00{epoch}/model.safetensors")
        assert all(torch.equal(kept[key], same[key]) for key in same)
        beside = json.loads((tmp_path / f"best-{criterion}/training.json").read_text())
        assert (beside["criterion"], beside["epoch"], len(beside["history"])) == (criterion, epoch, epoch)
        assert beside["privacy"] == "none: trained without differential privacy"


def test_the_tokenizer_is_learnt_from_public_forms_alone(forms_folder: Path, tmp_path: Path) -> None:
    train(forms_folder, tmp_path, replace(TINY, epochs=1))
    parts = partition_forms(open_forms(forms_folder), seed=0)
    pieces = open_encoder(tmp_path / "best-loss").tokenizer.vocabulary
    assert pieces == train_vocabulary((word for form in parts.public for word in form.document.words), 200)
    assert pieces != train_vocabulary((word for form in parts.private for word in form.document.words), 200)


@pytest.mark.parametrize(
    "settings",
    [
        replace(TINY, task="ee-bio", epochs=1),
        replace(TINY, task="ee-spade", backbone="bros", modality="bimodal", epochs=1),
    ],
)
def test_a_start_gives_tokenizer_sizes_and_weights(
    forms_folder: Path, public: Path, tmp_path: Path, settings: FormTrainSettings
) -> None:
    record = train(forms_folder, tmp_path, replace(settings, size="nonsense", learning_rate=1e-7), public)
    trained, before = open_encoder(tmp_path / "best-loss"), open_encoder(public)
    assert trained.tokenizer.vocabulary == before.tokenizer.vocabulary
    assert trained.config.hidden == before.config.hidden
    assert trained.config.text["hidden_dropout_prob"] == 0.0
    torch.testing.assert_close(trained.network.words.weight, before.network.words.weight, atol=1e-5, rtol=0)
    assert len(record["data"]["before"]) == 1
    assert "tensors taken from the checkpoint" in record["notes"][0]


def test_a_checkpoint_of_others_gives_its_casing_and_not_its_tags(
    forms_folder: Path, public: Path, tmp_path: Path
) -> None:
    start = tmp_path / "start"
    shutil.copytree(public, start)
    for name, change in (
        ("config.json", {"architectures": ["LayoutLMForTokenClassification"], "id2label": {"0": "LABEL_0"}}),
        ("tokenizer_config.json", {"strip_accents": False}),
    ):
        values = json.loads((start / name).read_text()) | change
        values.pop("pfl_audit", None)
        (start / name).write_text(json.dumps(values))
    train(forms_folder, tmp_path / "out", replace(TINY, task="ee-bio", epochs=1), start)
    trained = open_encoder(tmp_path / "out/best-loss")
    assert trained.config.labels == ("answer", "header", "question")
    assert trained.tokenizer.casing.strip_accents is False
    assert trained.tokenizer.fingerprint == FormTokenizer.open(start).fingerprint


@pytest.mark.parametrize("task", ["ee-spade", "el"])
def test_tokens_that_are_scored_are_a_choice_of_the_checkpoint(task: Any, forms_folder: Path, tmp_path: Path) -> None:
    losses = {}
    for labelled in ("word-starts", "fields"):
        settings = replace(TINY, task=task, epochs=1, labelled_tokens=labelled)
        record = train(forms_folder, tmp_path / labelled, settings)
        losses[labelled] = record["history"][0]["validation_loss"]
        assert record["identity"]["settings"]["labelled_tokens"] == labelled
        assert open_encoder(tmp_path / labelled / "best-loss").config.labelled_tokens == labelled
    assert losses["word-starts"] != pytest.approx(losses["fields"], rel=1e-3)
    assert "labelled_tokens" not in TINY.to_dict(), "runs of other tasks stay those of earlier versions"


def test_a_finished_run_is_not_repeated_and_no_other_takes_its_place(
    forms_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(TINY, epochs=1)
    record = train(forms_folder, tmp_path, settings)
    monkeypatch.setattr(FormEncoder, "loss", lambda *_: pytest.fail("trained again"))
    assert train(forms_folder, tmp_path, settings) == json.loads(json.dumps(record))
    with pytest.raises(UsageError, match="another run"):
        train(forms_folder, tmp_path, replace(settings, seed=1))
    (tmp_path / "training.json").write_text("[]")
    with pytest.raises(UsageError, match="another run"):
        train(forms_folder, tmp_path, settings)


def test_an_unfinished_run_is_only_continued_by_its_own_settings(forms_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_form_training(FormRun(forms_folder, tmp_path), TINY, Cut(3))
    with pytest.raises(UsageError, match="other data or settings"):
        train(forms_folder, tmp_path, replace(TINY, learning_rate=1e-4))
    (tmp_path / STATE_FILE).write_bytes(b"damaged")
    with pytest.raises(AuditError, match="is damaged"):
        train(forms_folder, tmp_path)


def test_an_endless_loss_stops_the_run(forms_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(network: FormEncoder, batch: Any) -> torch.Tensor:
        return network.words.weight.sum() * torch.nan

    monkeypatch.setattr(FormEncoder, "loss", endless)
    with pytest.raises(AuditError, match=r"the training loss is nan at step 1\. Lower --learning-rate"):
        train(forms_folder, tmp_path)


def test_a_tensor_that_does_not_move_stops_the_run(
    forms_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        FormEncoder, "loss", lambda network, batch: network.words.weight[batch.ids].sum(dim=(1, 2)).square()
    )
    with pytest.raises(AuditError, match=r"trainable tensors did not move.*layoutlm\.embeddings"):
        train(forms_folder, tmp_path)


def without(what: str, forms: FormCorpus, folder: Path) -> Path:
    fields = {form.id: () if what == "fields" else form.fields for form in forms.forms}
    bare = tuple(replace(form, fields=fields[form.id], links=()) for form in forms.forms)
    write_forms(replace(forms, forms=bare), folder)
    return folder


@pytest.mark.parametrize(
    ("task", "what", "message"),
    [
        ("el", "links", "validation part have no two linked fields"),
        ("ee-bio", "fields", "no form has a labelled field"),
        ("ee-spade", "fields", "no form has a labelled field"),
    ],
)
def test_forms_without_what_a_task_learns(
    forms: FormCorpus, tmp_path: Path, task: Any, what: str, message: str
) -> None:
    data = without(what, forms, tmp_path / "data")
    with pytest.raises(NotAuditableError, match=message):
        train(data, tmp_path / "out", replace(TINY, task=task))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "huge"}, "no size 'huge'"),
        ({"vocabulary": 20}, "vocabulary of 20 pieces is too small"),
        ({"optimizer": "none"}, "no optimiser 'none'"),
    ],
)
def test_settings_that_cannot_be(forms_folder: Path, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        train(forms_folder, tmp_path, replace(TINY, **change))


def test_starts_that_cannot_be(forms_folder: Path, public: Path, tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="does not exist"):
        train(forms_folder, tmp_path / "a", start=tmp_path / "nowhere")
    short = tmp_path / "short"
    short.mkdir()
    for path in public.iterdir():
        (short / path.name).write_bytes(path.read_bytes())
    config = json.loads((short / "config.json").read_text())
    (short / "config.json").write_text(json.dumps({**config, "hidden_size": 64}))
    with pytest.raises(AuditError, match="needs"):
        train(forms_folder, tmp_path / "b", start=short)
    (short / "config.json").write_text(json.dumps({**config, "model_type": "t5"}))
    with pytest.raises(AuditError, match="model_type"):
        train(forms_folder, tmp_path / "c", start=short)

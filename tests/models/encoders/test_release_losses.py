"""SPADE and linking against transformers' port of the BROS release, and the switch to ours."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from pfl_audit.documents.forms.form import Form
from pfl_audit.files import sha256_json
from pfl_audit.models.encoders.checkpoint import LoadedEncoder, open_encoder, save_encoder
from pfl_audit.models.encoders.config import SECTION
from pfl_audit.models.encoders.model import EncoderModel
from pfl_audit.models.form_protocol import Window
from pfl_audit.training.forms.model import ExampleMaker
from tests.models.encoders.makers import encoder, form, tokenizer


def windows() -> list[Window]:
    page = form("d_2", extra=4)
    linked = Form(page.document, page.fields, (("a", "b"), ("c", "d"), ("a", "d")))
    return [tokenizer().windows(one, 40)[0] for one in (form(), linked)]


def release_loss(theirs: Any, window: Window, numbers: dict[str, int]) -> float:
    """The loss of one window, with the labels that the release makes of it."""
    tokens = range(len(window.ids))
    nowhere = len(window.ids)
    first = torch.tensor([window.words[t] >= 0 and window.words[t] != window.words[t - 1] for t in tokens])
    starts = {span.field.id: span.start for span in window.spans}
    initial, previous, linked = [0] * nowhere, [nowhere] * nowhere, [nowhere] * nowhere
    for span in window.spans:
        initial[span.start] = numbers.get(span.field.label, 0)
        for token in range(span.start + 1, span.stop):
            previous[token] = token - 1
    for naming, answering in window.form.links:
        linked[starts[answering]] = starts[naming]
    given = {
        "input_ids": torch.from_numpy(window.ids)[None],
        "bbox": torch.from_numpy(window.boxes)[None],
        "attention_mask": torch.ones(1, nowhere, dtype=torch.int64),
        "bbox_first_token_mask": first[None],
    }
    if isinstance(theirs, transformers.BrosSpadeEEForTokenClassification):
        given |= {"initial_token_labels": torch.tensor([initial]), "subsequent_token_labels": torch.tensor([previous])}
    else:
        given["labels"] = torch.tensor([linked])
    with torch.no_grad():
        return float(theirs(**given).loss)


def losses(loaded: LoadedEncoder) -> torch.Tensor:
    batch = ExampleMaker(loaded.config, loaded.tokenizer).batch(windows())
    with torch.no_grad():
        return loaded.network.loss(batch)


@pytest.mark.parametrize(("task", "name"), [("ee-spade", "SpadeEE"), ("el", "SpadeEL")])
def test_the_loss_of_a_window_is_that_of_the_release(task: str, name: str, tmp_path: Path) -> None:
    loaded = encoder("bros", task)
    save_encoder(loaded, tmp_path)
    theirs = getattr(transformers, f"Bros{name}ForTokenClassification").from_pretrained(tmp_path).eval()
    numbers = {tag: number for number, tag in enumerate(loaded.config.tags)}
    expected = [release_loss(theirs, window, numbers) for window in windows()]
    assert losses(loaded).tolist() == pytest.approx(expected, rel=1e-4)
    ours = losses(encoder("bros", task, labelled_tokens="fields")).tolist()
    assert ours != pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("task", ["ee-spade", "el"])
def test_a_checkpoint_keeps_the_tokens_that_it_was_trained_at(task: str, tmp_path: Path) -> None:
    def opened(change: Any) -> str:
        save_encoder(encoder("bros", task, labelled_tokens="fields"), tmp_path)
        values = json.loads((tmp_path / "config.json").read_text())
        change(values)
        (tmp_path / "config.json").write_text(json.dumps(values))
        return open_encoder(tmp_path).config.labelled_tokens

    assert opened(lambda values: None) == "fields"
    assert opened(lambda values: values[SECTION].update(labelled_tokens="word-starts")) == "word-starts"
    assert opened(lambda values: values[SECTION].pop("labelled_tokens")) == "fields", "from before there was a choice"
    assert opened(lambda values: values.pop(SECTION)) == "word-starts", "of others: as the release"
    save_encoder(encoder("bros", "mlm"), tmp_path)
    assert "labelled_tokens" not in (tmp_path / "config.json").read_text()


@pytest.mark.parametrize("task", ["mlm", "ee-bio", "ee-spade", "el"])
def test_stored_losses_stay_valid_where_nothing_changed(task: str) -> None:
    def fingerprint(**more: Any) -> str:
        return EncoderModel(encoder("bros", task, **more), {"config.json": "0"}, Path("somewhere")).fingerprint

    before = sha256_json(["bros", 2, {"config.json": "0"}, tokenizer().fingerprint, None, "float32"])
    assert fingerprint(labelled_tokens="fields") == before
    assert (fingerprint() == before) is (task in ("mlm", "ee-bio"))

"""RoBERTa, LiLT and LayoutLMv3 of transformers: the same tokens, boxes, pixels and logits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

from pfl_audit.documents.forms.form import Form
from pfl_audit.errors import AuditError
from pfl_audit.models.encoders.checkpoint import LoadedEncoder, open_encoder, save_encoder
from pfl_audit.models.encoders.model import EncoderModel, open_form_model
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.form_protocol import Attempt
from pfl_audit.models.open import family_of
from pfl_audit.models.protocol import Capability
from pfl_audit.training.forms.model import ExampleMaker
from tests.models.encoders.makers import form, page_file
from tests.models.encoders.others import SEVEN, THIRTEEN, saved

WORDS = ("Name", ":", "12/03/2020", "Größe", "MÜLLER", "中国", "naïve", "e\u0301", "<mask>", "it's", "#!", "Zoë")


def ours(folder: Path, *forms: Form) -> tuple[LoadedEncoder, torch.Tensor, torch.Tensor]:
    """An opened checkpoint, its logits at the forms, and where there are tokens."""
    loaded = open_encoder(folder)
    maker = ExampleMaker(loaded.config, loaded.tokenizer)
    batch = maker.batch(maker.windows(forms), torch.Generator().manual_seed(0))
    if loaded.config.task == "mlm":  # nothing masked
        batch.ids.copy_(torch.nn.utils.rnn.pad_sequence(
            [torch.from_numpy(window.ids) for window in maker.windows(forms)], batch_first=True,
            padding_value=loaded.tokenizer.pad,
        ))  # fmt: skip
    with torch.no_grad():
        logits = loaded.network(batch).classes
    assert logits is not None
    return loaded, logits, batch.mask


@pytest.mark.parametrize(
    ("kind", "tags"),
    [("Roberta", None), ("Roberta", SEVEN), ("Lilt", SEVEN), ("LayoutLMv3", SEVEN), ("LayoutLMv3", THIRTEEN)],
)
def test_logits_are_those_of_transformers(kind: str, tags: list[str] | None, tmp_path: Path) -> None:
    theirs = saved(tmp_path, kind, tags)
    page = page_file(tmp_path)
    forms = [form("d_1", page), form("d_2", page, extra=5)]
    loaded, logits, mask = ours(tmp_path, *forms)
    tokens = hf.AutoTokenizer.from_pretrained(tmp_path, add_prefix_space=True)
    boxed = kind != "Roberta"
    boxes = [(one.document.boxes * 1000).round().astype(int).tolist() for one in forms]
    words = [list(one.document.words) for one in forms]
    given: dict[str, Any] = {"boxes": boxes} if boxed else {"is_split_into_words": True}
    read = dict(tokens(words, **given, padding=True, return_tensors="pt"))
    if kind == "LayoutLMv3":
        from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import LayoutLMv3ImageProcessorPil

        pictures = LayoutLMv3ImageProcessorPil(apply_ocr=False, size={"height": 32, "width": 32})
        read["pixel_values"] = pictures([Image.open(page).convert("RGB")] * 2, return_tensors="pt")["pixel_values"]
    read.pop("token_type_ids", None)
    with torch.no_grad():
        expected = theirs(**read).logits
    assert torch.equal(read["attention_mask"].bool(), mask)
    torch.testing.assert_close(logits[mask], expected[:, : mask.shape[1]][mask], rtol=1e-4, atol=1e-4)
    assert loaded.config.labels == (("NAME", "DATE", "AMOUNT") if tags else ())
    save_encoder(loaded, tmp_path / "again")
    _, again, _ = ours(tmp_path / "again", *forms)
    torch.testing.assert_close(again, logits)


def test_a_layoutlmv3_without_patches_reads_no_page(tmp_path: Path) -> None:
    saved(tmp_path, "LayoutLMv3", SEVEN, visual_embed=False)
    loaded, _, _ = ours(tmp_path, form())
    assert loaded.config.page_side is None


def test_a_page_in_other_pixels_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, "LayoutLMv3", SEVEN)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.4] * 3}))
    with pytest.raises(AuditError, match="changes the page otherwise than LayoutLMv3's own"):
        open_encoder(tmp_path)


@pytest.mark.parametrize("kind", ["Lilt", "LayoutLMv3"])
def test_an_attempt_gets_what_it_gets_alone(kind: str, tmp_path: Path) -> None:
    saved(tmp_path, kind, SEVEN)
    asked = open_form_model(tmp_path)
    assert (asked.sees_page, asked.capabilities) == (
        kind == "LayoutLMv3",
        {Capability.FORM_LOSS, Capability.LOSS_ESTIMATES},
    )
    page = page_file(tmp_path)
    blanks = [pair for one in (form("d_1", page), form("d_2", page, extra=9)) for pair in asked.blanks(one)]
    attempts = [Attempt(blank, truth[:count]) for blank, truth in blanks for count in range(len(truth) + 1)]
    together = asked.losses(attempts)
    assert together.std() > 0.01
    estimates = asked.estimated_losses([attempts[0]])[0]
    assert np.isfinite(estimates).sum() == len(asked.vocabulary) - 5
    assert estimates[np.isfinite(estimates)].std() > 1e-3
    for number in range(0, len(attempts), 7):
        assert asked.losses([attempts[number]])[0] == pytest.approx(together[number], rel=1e-3, abs=1e-4)


def test_patches_of_the_page_count_for_the_size_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, "LayoutLMv3", SEVEN)
    asked = open_form_model(tmp_path)
    assert isinstance(asked, EncoderModel)
    blank = asked.blanks(form(image=page_file(tmp_path)))[0][0]
    monkeypatch.setattr("pfl_audit.models.encoders.model._BATCH_TOKENS", 3 * (len(blank.window.ids) + 5))
    assert [len(rows) for rows in asked._chunks([blank] * 7)] == [3, 3, 1]


def test_logits_of_a_masked_language_model_are_of_ordinary_tokens(tmp_path: Path) -> None:
    saved(tmp_path, "Roberta")
    asked = open_form_model(tmp_path)
    assert asked.capabilities == {Capability.FORM_LOSS, Capability.TOKENS}
    blank, truth = asked.blanks(form())[1]
    logits = asked.token_logits([Attempt(blank)])[0]
    special = [asked.vocabulary.index(name) for name in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")]
    assert all(logits[number] == -float("inf") for number in special)
    assert len(truth) == blank.length
    assert set(blank.window.ids[blank.span.start : blank.span.stop]) == {special[-1]}


@pytest.mark.parametrize("kind", ["tokenizer.json", "vocab.json"])
def test_words_are_cut_as_by_transformers(kind: str, tmp_path: Path) -> None:
    saved(tmp_path, "Roberta")
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path, add_prefix_space=True)
    opened = FormTokenizer.open(tmp_path)
    if kind == "vocab.json":
        opened.save(tmp_path / "plain")
        again = FormTokenizer.open(tmp_path / "plain")
        assert again.fingerprint == opened.fingerprint
        opened = again
    for word in WORDS:
        if word != "<mask>":  # a word, and no mask
            read = theirs([word], is_split_into_words=True, add_special_tokens=False)["input_ids"]
            assert list(opened.encode(word)) == read, word
    assert opened.mask not in opened.encode("<mask>")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda content: content.update(pre_tokenizer={"type": "Metaspace"}), "its BPE is not RoBERTa's"),
        (lambda content: content.update(normalizer={"type": "NFKC"}), "its BPE is not RoBERTa's"),
        (lambda content: content["model"].update(merges=["abc"]), "a merge is no pair"),
        (lambda content: content["model"].update(merges=["qq zz"]), "cannot be used"),
        (lambda content: content["model"].pop("merges"), "merges"),
        (lambda content: content["model"].update(merges=3), "tokenizer.json"),
        (lambda content: content["added_tokens"].clear(), "lacks <|ids do not count|tokenizer"),
    ],
)
def test_damaged_byte_pairs_are_one_clear_line(tmp_path: Path, change: Callable[..., object], line: str) -> None:
    saved(tmp_path, "Roberta")
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    if line.startswith("lacks"):
        content["model"]["vocab"] = {
            piece: number for number, piece in enumerate(name for name in content["model"]["vocab"] if name[0] != "<")
        }
        content["model"]["merges"] = []
    change(content)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(AuditError, match=line) as caught:
        FormTokenizer.open(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "change", "line"),
    [
        ("Lilt", {"channel_shrink_ratio": 24}, "does not fit the boxes"),
        ("Lilt", {"max_2d_position_embeddings": 1000}, "max_2d_position_embeddings"),
        ("LayoutLMv3", {"coordinate_size": 5}, "4 times coordinate_size"),
        ("LayoutLMv3", {"max_rel_pos": 4}, "max_rel_pos"),
        ("LayoutLMv3", {"patch_size": 64}, "patch_size"),
        ("LayoutLMv3", {"patch_size": [16, 16]}, "patch_size"),
        ("LayoutLMv3", {"visual_embed": "yes"}, "visual_embed"),
        ("LayoutLMv3", {"input_size": 1 << 30}, "input_size"),
        ("Roberta", {"max_position_embeddings": 3}, "max_tokens"),
        ("Roberta", {"pad_token_id": "1"}, "pad_token_id"),
        ("Roberta", {"tie_word_embeddings": 0}, "tie_word_embeddings"),
        ("Lilt", {"pfl_audit": {"task": "el"}}, "lilt has no head for el"),
        ("Lilt", {"pfl_audit": {"modality": "bimodal"}}, "modality is bimodal"),
    ],
)
def test_settings_that_make_no_encoder_are_one_clear_line(
    kind: str, change: dict[str, Any], line: str, tmp_path: Path
) -> None:
    saved(tmp_path, kind, SEVEN)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, **change}))
    with pytest.raises(AuditError, match=line) as caught:
        open_encoder(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_base_size_of_each_is_accepted() -> None:
    from pfl_audit.models.encoders.config import EncoderConfig

    for backbone in ("roberta", "lilt", "layoutlmv3"):
        made = EncoderConfig(backbone, "ee-bio", labels=("a",), vocabulary=50265, positions=514,
                             text={"pad_token_id": 1})  # type: ignore[arg-type]  # fmt: skip
        assert (made.longest, made.max_tokens) == (512, 512)


def test_other_heads_of_these_backbones_are_no_form_encoders(tmp_path: Path) -> None:
    saved(tmp_path, "Roberta")
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, "architectures": ["RobertaForSequenceClassification"]}))
    with pytest.raises(AuditError, match="classifier answers no questions"):
        family_of(tmp_path)


class TestOutputLayer:
    """Heads for masked tokens whose output layer is, or is not, the embedding."""

    @staticmethod
    def bert(folder: Path, name: str, *, tied: bool) -> Any:
        from tests.models.encoders.makers import tokenizer

        config = hf.BertConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
            vocab_size=len(tokenizer().vocabulary), max_position_embeddings=48, tie_word_embeddings=tied,
        )  # fmt: skip
        network = getattr(hf, name)(config).eval()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_(std=0.5)
        network.save_pretrained(folder)
        tokenizer().save(folder)
        return network

    @pytest.mark.parametrize("tied", [True, False])
    @pytest.mark.parametrize("name", ["BertForMaskedLM", "BertForPreTraining"])
    def test_of_bert_is_that_of_transformers(self, name: str, *, tied: bool, tmp_path: Path) -> None:
        theirs = self.bert(tmp_path, name, tied=tied)
        loaded, logits, mask = ours(tmp_path, form(), form("d_2", extra=4))
        maker = ExampleMaker(loaded.config, loaded.tokenizer)
        for row, window in enumerate(maker.windows([form(), form("d_2", extra=4)])):
            with torch.no_grad():
                said = theirs(input_ids=torch.from_numpy(window.ids)[None])
            expected = said.logits if name == "BertForMaskedLM" else said.prediction_logits
            torch.testing.assert_close(logits[row][mask[row]], expected[0], rtol=1e-4, atol=1e-4)
        assert bool(loaded.notes) is not tied
        save_encoder(loaded, tmp_path / "again")
        again = hf.BertForMaskedLM.from_pretrained(tmp_path / "again").eval()
        ids = torch.from_numpy(maker.windows([form()])[0].ids)[None]
        with torch.no_grad():
            torch.testing.assert_close(again(input_ids=ids).logits[0], logits[0][mask[0]], rtol=1e-4, atol=1e-4)
        _, once_more, _ = ours(tmp_path / "again", form(), form("d_2", extra=4))
        torch.testing.assert_close(once_more, logits)

    @pytest.mark.parametrize("tied", [True, False])
    def test_of_roberta_is_that_of_transformers(self, *, tied: bool, tmp_path: Path) -> None:
        theirs = saved(tmp_path, "Roberta", tie_word_embeddings=tied)
        loaded, logits, mask = ours(tmp_path, form())
        with torch.no_grad():
            window = loaded.tokenizer.windows(form(), 64)[0]
            expected = theirs(input_ids=torch.from_numpy(window.ids)[None]).logits[0]
        torch.testing.assert_close(logits[0][mask[0]], expected, rtol=1e-4, atol=1e-4)

    def test_of_its_own_that_is_missing_is_named(self, tmp_path: Path) -> None:
        self.bert(tmp_path, "BertForMaskedLM", tied=True)
        values = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps({**values, "tie_word_embeddings": False}))
        with pytest.raises(AuditError, match=r"lacks 1 tensors \(cls.predictions.decoder.weight"):
            open_encoder(tmp_path)


def test_a_label_map_and_a_head_of_others_go_together(tmp_path: Path) -> None:
    saved(tmp_path, "Lilt", SEVEN)
    asked = open_form_model(tmp_path, label_map={"iban": "b-amount"})
    assert isinstance(asked, EncoderModel)
    assert asked.require_labels({"name", "iban", "other"}) == ("other",)

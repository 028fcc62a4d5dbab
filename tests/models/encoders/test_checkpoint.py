import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.models.encoders.batch import FormBatch, collate
from pfl_audit.models.encoders.checkpoint import LoadedEncoder, open_encoder, save_encoder
from pfl_audit.models.encoders.config import SECTION
from pfl_audit.models.encoders.family import FAMILY
from tests.models.encoders.makers import LABELS, encoder, form, page_file, tokenizer

THEIRS = {
    "LayoutLMForMaskedLM": ("layoutlm", "mlm"),
    "LayoutLMForTokenClassification": ("layoutlm", "ee-bio"),
    "BertForMaskedLM": ("bert", "mlm"),
    "BertForTokenClassification": ("bert", "ee-bio"),
    "BrosForTokenClassification": ("bros", "ee-bio"),
    "BrosSpadeEEForTokenClassification": ("bros", "ee-spade"),
    "BrosSpadeELForTokenClassification": ("bros", "el"),
}


def saved(folder: Path, *args: Any, **more: Any) -> LoadedEncoder:
    loaded = encoder(*args, **more)
    save_encoder(loaded, folder)
    return loaded


def batch_of(extra: int = 4) -> FormBatch:
    return collate([tokenizer().windows(page, 40)[0] for page in (form(), form("d_2", extra=extra))])


def edit_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def edit_weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors")


def same(one: LoadedEncoder, other: LoadedEncoder, batch: FormBatch | None = None) -> bool:
    with torch.no_grad():
        said, again = one.network(batch or batch_of()), other.network(batch or batch_of())
    return all(a is b or torch.equal(a, b) for a, b in zip(said, again, strict=True))


@pytest.mark.parametrize("task", ["mlm", "ee-bio", "ee-spade", "el"])
@pytest.mark.parametrize("backbone", ["layoutlm", "bros", "bert"])
def test_what_was_saved_opens_again(backbone: str, task: str, tmp_path: Path) -> None:
    loaded = saved(tmp_path, backbone, task, "bimodal")
    state = torch.get_rng_state()
    opened = open_encoder(tmp_path)
    assert torch.equal(state, torch.get_rng_state()), "opening draws nothing from torch's chance"
    assert opened.config == loaded.config
    assert opened.tokenizer.vocabulary == loaded.tokenizer.vocabulary
    assert not opened.network.training
    windows = tokenizer().windows(form(image=page_file(tmp_path)), 40)
    assert same(loaded, opened, collate(windows, pixels=torch.rand(1, 3, 32, 32)))
    assert not {name for name in load_file(tmp_path / "model.safetensors") if "decoder" in name}
    if task == "mlm":
        assert opened.network.cls.predictions.decoder.weight is opened.network.words.weight


def test_half_precision_halves_the_file_and_extra_files_stand_beside_it(tmp_path: Path) -> None:
    loaded = encoder("bros", "mlm", "bimodal")
    save_encoder(loaded, tmp_path / "whole")
    save_encoder(loaded, tmp_path / "half", dtype=torch.float16, extra={"history.json": [1]})
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.7 * sizes[0]
    assert json.loads((tmp_path / "half/history.json").read_text()) == [1]
    again = open_encoder(tmp_path / "half")
    assert {tensor.dtype for tensor in again.network.parameters()} == {torch.float32}
    for name, tensor in again.network.named_buffers():
        assert torch.equal(tensor, loaded.network.get_buffer(name))


@pytest.mark.parametrize("name", THEIRS)
def test_transformers_opens_ours_and_ours_theirs(name: str, tmp_path: Path) -> None:
    backbone, task = THEIRS[name]
    loaded = saved(tmp_path / "ours", backbone, task)
    theirs = getattr(transformers, name).from_pretrained(tmp_path / "ours").eval()
    batch = batch_of()
    given = {"input_ids": batch.ids, "attention_mask": batch.mask.long()}
    if backbone != "bert":
        given["bbox"] = (batch.boxes * 1000).round().long() if backbone == "layoutlm" else batch.boxes
    with torch.no_grad():
        said, expected = loaded.network(batch), theirs(**given)
    if task == "ee-spade":
        torch.testing.assert_close(said.classes, expected.initial_token_logits)
        torch.testing.assert_close(said.pointers, expected.subsequent_token_logits)
    elif task == "el":
        allowed = said.pointers > torch.finfo(torch.float32).min
        torch.testing.assert_close(said.pointers[allowed], expected.logits[allowed])
    else:
        torch.testing.assert_close(said.classes, expected.logits)

    def forget(config: dict[str, Any]) -> None:
        config.pop(SECTION)

    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer().save(tmp_path / "theirs")
    edit_config(tmp_path / "theirs", forget)
    opened = open_encoder(tmp_path / "theirs")
    assert (opened.config.backbone, opened.config.task, opened.config.modality) == (backbone, task, "unimodal")
    assert opened.config.labels == (LABELS if task.startswith("ee") else ())
    assert same(loaded, opened)


def test_classes_of_the_hub_may_stand_in_another_order(tmp_path: Path) -> None:
    loaded = saved(tmp_path, "layoutlm", "ee-bio", labels=("date", "name", "amount"))

    def shuffle(config: dict[str, Any]) -> None:
        del config[SECTION]
        names = ["I-NAME", "B-AMOUNT", "O", "B-NAME", "B-DATE", "I-DATE", "I-AMOUNT"]
        config["id2label"] = dict(enumerate(names))

    edit_config(tmp_path, shuffle)
    opened = open_encoder(tmp_path)
    assert opened.config.labels == ("NAME", "AMOUNT", "DATE")
    assert opened.config.tags[2] == "O"
    assert same(loaded, opened)


def test_a_checkpoint_that_names_no_architecture_is_known_by_its_tensors(tmp_path: Path) -> None:
    loaded = saved(tmp_path, "layoutlm", "mlm")

    def forget(config: dict[str, Any]) -> None:
        del config[SECTION], config["architectures"]

    edit_config(tmp_path, forget)
    edit_weights(
        tmp_path,
        lambda state: state.update(
            {
                "layoutlm.pooler.dense.weight": torch.zeros(16, 16),
                "cls.seq_relationship.weight": torch.zeros(2, 16),
                "cls.predictions.decoder.weight": state["layoutlm.embeddings.word_embeddings.weight"].clone(),
                "cls.predictions.decoder.bias": state["cls.predictions.bias"].clone(),
                "layoutlm.embeddings.position_ids": torch.arange(48)[None],
                "layoutlm.embeddings.LayerNorm.gamma": state.pop("layoutlm.embeddings.LayerNorm.weight"),
                "layoutlm.embeddings.LayerNorm.beta": state.pop("layoutlm.embeddings.LayerNorm.bias"),
            }
        ),
    )
    opened = open_encoder(tmp_path)
    assert opened.config.task == "mlm"
    assert opened.notes == ()
    assert same(loaded, opened)


def test_an_output_layer_of_its_own_is_kept(tmp_path: Path) -> None:
    saved(tmp_path, "bert", "mlm")
    words = "bert.embeddings.word_embeddings.weight"
    edit_weights(tmp_path, lambda state: state.update({"cls.predictions.decoder.weight": 2 * state[words]}))
    opened = open_encoder(tmp_path)
    assert "of its own" in opened.notes[0]
    torch.testing.assert_close(opened.network.cls.predictions.decoder.weight, 2 * opened.network.words.weight)
    save_encoder(opened, tmp_path / "again")
    assert same(opened, open_encoder(tmp_path / "again"))


HEAD = "cls.predictions.transform.dense.weight"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            lambda state: [state.pop(name) for name in list(state) if name.startswith("cls.")],
            "lacks 5 .*that the model is for this task",
        ),
        (lambda state: state.update(strange=torch.zeros(1)), r"unknown 1 tensors \(strange\)"),
        (lambda state: state.update({HEAD: torch.zeros(3, 16)}), r"transform.dense.weight is \(3, 16\)"),
        (lambda state: state.update({HEAD: torch.zeros(16, 16, dtype=torch.int64)}), "int64"),
        (lambda state: state.update({HEAD: torch.full((16, 16), torch.nan)}), "NaN"),
        (lambda state: state.update({"cls.predictions.decoder.weight": torch.zeros(2, 2)}), "decoder.weight is"),
    ],
)
def test_weights_that_do_not_fit_are_named(tmp_path: Path, change: Callable, line: str) -> None:
    saved(tmp_path, "layoutlm", "mlm")
    edit_weights(tmp_path, change)
    with pytest.raises(AuditError, match=line):
        open_encoder(tmp_path)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda config: config.update(model_type="t5"), "model_type is none of"),
        (lambda config: config.update(hidden_size=1 << 40), "hidden"),
        (lambda config: config.update(hidden_size=32), "is .*config.json asks for"),
        (lambda config: config.update(num_hidden_layers="2"), "layers"),
        (lambda config: config.update(num_hidden_layers=3), "lacks"),
        (lambda config: config.update(num_attention_heads=0), "heads"),
        (lambda config: config.update(vocab_size=20), "pieces, the embedding only 20 rows"),
        (lambda config: config.update(hidden_act="rm -rf"), "config.json does not describe"),
        (lambda config: config.update(layer_norm_eps="x"), "config.json does not describe"),
        (lambda config: config.update(hidden_dropout_prob=[1]), "config.json does not describe"),
        (lambda config: config.update(max_2d_position_embeddings=10), "max_2d_position_embeddings"),
        (lambda config: config.update(pad_token_id=-1), "pad_token_id"),
        (lambda config: config.update(id2label={"0": "O", "2": "B-x"}), "count from 0"),
        (lambda config: config.update(id2label={"0": "O", "1": "B-date", "2": "I-date"}), "belong together"),
        (lambda config: config.update(id2label=None), "id2label is missing"),
        (lambda config: config.update({SECTION: 3}), "not an object"),
        (lambda config: config[SECTION].update(task="steal"), "task is none of"),
        (lambda config: config[SECTION].update(task=["mlm"]), "task is none of"),
        (lambda config: config[SECTION].update(task="mlm", labels=[]), "lacks"),
        (lambda config: config[SECTION].update(labels="abc"), "not a list"),
        (lambda config: config[SECTION].update(labels=[{}]), "config.json does not describe"),
        (lambda config: config[SECTION].update(modality="bimodal"), "lacks"),
        (lambda config: config[SECTION].update(visual={"side": 64}), "visual is set"),
        (lambda config: config[SECTION].update(modality="bimodal", visual={"side": 1 << 30}), "visual.side"),
        (lambda config: config[SECTION].update(modality="bimodal", visual={"path": "x"}), "unknown key"),
        (lambda config: config[SECTION].update(modality="bimodal", visual={"channels": [8, 8]}), "same length"),
        (lambda config: config[SECTION].update(max_tokens=4096), "max_tokens"),
        (lambda config: (config.pop(SECTION), config.update(architectures=["LayoutLMModel"])), "none of the heads"),
        (lambda config: (config.pop(SECTION), config.update(id2label={"0": "LABEL_0"})), "no class O"),
    ],
)
def test_settings_that_make_no_encoder_are_one_clear_line(tmp_path: Path, change: Callable, line: str) -> None:
    saved(tmp_path, "layoutlm", "ee-bio")
    edit_config(tmp_path, change)
    with pytest.raises(AuditError, match=line) as caught:
        open_encoder(tmp_path)
    assert "\n" not in str(caught.value)


def test_question_answering_checkpoints_are_another_familys(tmp_path: Path) -> None:
    assert FAMILY.recognises({"model_type": "layoutlm"}, frozenset({"classifier.weight"}))
    assert not FAMILY.recognises({"model_type": "layoutlm"}, frozenset({"qa_outputs.weight"}))
    assert not FAMILY.recognises({"model_type": "t5"}, frozenset())

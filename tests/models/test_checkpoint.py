import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.open import open_model
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.keys import ALIASES, EMBEDDING, LM_HEAD, to_internal, to_released
from pfl_audit.models.vt5.model import Vt5Model
from tests.conftest import PIECES, ROWS

Make = Callable[[int], Path]


@pytest.fixture
def folder(make_checkpoint: Make, tmp_path: Path) -> Path:
    return Path(shutil.copytree(make_checkpoint(0), tmp_path / "ckpt"))


def edit(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors")


def edit_config(folder: Path, **values: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


def losses(folder: Path, corpus: Corpus) -> list[float]:
    return [response.loss or 0.0 for response in Vt5Model(folder).respond(list(corpus.queries[:4]))]


def test_names_in_the_file_are_the_released_ones(folder: Path) -> None:
    names = set(load_file(folder / "model.safetensors"))
    prefix = "visual_embedding.image_model."
    for name in (
        "language_backbone.shared.weight",
        "language_backbone.encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "language_backbone.decoder.block.0.layer.2.DenseReluDense.wo.weight",
        "spatial_embedding.spatial_emb_matcher.layers.0.bias",
        "spatial_embedding.LayerNorm.weight",
        prefix + "embeddings.cls_token",
        prefix + "encoder.layer.0.lambda_1",
        prefix + "encoder.layer.0.attention.attention.query.bias",
        prefix + "encoder.layer.0.attention.attention.key.weight",
        prefix + "encoder.layer.0.attention.output.dense.weight",
        prefix + "encoder.layer.0.intermediate.dense.weight",
        prefix + "encoder.layer.0.output.dense.weight",
        prefix + "encoder.layer.0.layernorm_after.weight",
        prefix + "pooler.layernorm.weight",
        "visual_embedding.visual_emb_matcher.layers.0.weight",
    ):
        assert name in names
    assert prefix + "encoder.layer.0.attention.attention.key.bias" not in names
    assert all(to_released(to_internal(name)) == name for name in names)
    assert not names & {*ALIASES, LM_HEAD}


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_one_two_or_four_copies_of_the_embedding(folder: Path, red: Corpus, copies: int) -> None:
    expected = losses(folder, red)
    extra = {1: (), 2: (LM_HEAD,), 4: (LM_HEAD, *ALIASES)}[copies]
    edit(folder, lambda state: state.update({name: state[EMBEDDING].clone() for name in extra}))
    assert losses(folder, red) == pytest.approx(expected)
    network = load_vt5(folder).network.language_backbone
    assert network.lm_head.weight is network.shared.weight
    assert network.decoder.embed_tokens is network.encoder.embed_tokens is network.shared


def test_an_output_layer_of_its_own_is_kept_and_still_scaled(folder: Path, red: Corpus) -> None:
    before = losses(folder, red)
    edit(folder, lambda state: state.update({LM_HEAD: state[EMBEDDING] * 2}))
    loaded = load_vt5(folder)
    assert "output layer: a tensor of its own" in loaded.notes
    assert loaded.network.language_backbone.config.scale_decoder_outputs
    torch.testing.assert_close(
        loaded.network.language_backbone.lm_head.weight, 2 * loaded.network.language_backbone.shared.weight
    )
    assert losses(folder, red) != pytest.approx(before)


def test_copies_that_differ_are_resolved_as_the_reference_does(folder: Path) -> None:
    edit(folder, lambda state: state.update({ALIASES[0]: state[EMBEDDING] + 1, ALIASES[1]: state[EMBEDDING] + 2}))
    before = load_file(folder / "model.safetensors")
    loaded = load_vt5(folder)
    torch.testing.assert_close(loaded.network.language_backbone.shared.weight.data, before[ALIASES[1]])
    assert any("copies of the embedding differ" in note for note in loaded.notes)


def test_a_pickle_opens_to_the_same_model(folder: Path, red: Corpus) -> None:
    expected = losses(folder, red)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert losses(folder, red) == pytest.approx(expected)


def test_shards(folder: Path, red: Corpus) -> None:
    expected = losses(folder, red)
    state = load_file(folder / "model.safetensors")
    names = sorted(state)
    parts = {"model-1.safetensors": names[:20], "model-2.safetensors": names[20:]}
    for file, some in parts.items():
        save_file({name: state[name] for name in some}, folder / file)
    index = {"weight_map": {name: file for file, some in parts.items() for name in some}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    assert losses(folder, red) == pytest.approx(expected)


def test_released_config_without_our_keys_is_read_off_the_shapes(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    kept = {key: value for key, value in config.items() if not key.startswith("vt5_")}
    (folder / "config.json").write_text(json.dumps(kept))
    loaded = load_vt5(folder)
    visual = loaded.network.config.visual
    assert (visual.hidden_size, visual.num_hidden_layers, visual.intermediate_size) == (24, 1, 32)
    assert (visual.image_size, visual.patch_size) == (32, 16)
    assert "boxes: reference" in loaded.notes


def test_half_precision_files_compute_in_single(folder: Path, red: Corpus) -> None:
    expected = losses(folder, red)
    edit(folder, lambda state: state.update({name: tensor.half() for name, tensor in state.items()}))
    assert losses(folder, red) == pytest.approx(expected, rel=0.05)
    assert load_vt5(folder).network.language_backbone.shared.weight.dtype is torch.float32


def test_fast_tokenizer_file_serves_where_sentencepiece_is_missing(folder: Path) -> None:
    from tokenizers import Tokenizer, models

    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("a", -1.0)]
    Tokenizer(models.Unigram(pieces, unk_id=2)).save(str(folder / "tokenizer.json"))
    (folder / "spiece.model").unlink()
    assert load_vt5(folder).tokenizer.encode("a") == (3,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("spatial_embedding.LayerNorm.bias"), "lacks 1 tensors .spatial_embedding.LayerNorm.bias"),
        (lambda s: s.update({"surprise": torch.zeros(1)}), "unknown 1 tensors .surprise"),
        (
            lambda s: s.update({"spatial_embedding.LayerNorm.bias": torch.zeros(5)}),
            r"spatial_embedding.LayerNorm.bias is \(5,\), config.json asks for \(32,\)",
        ),
        (
            lambda s: s["spatial_embedding.LayerNorm.bias"].fill_(float("nan")),
            "spatial_embedding.LayerNorm.bias holds NaN",
        ),
        (
            lambda s: s["language_backbone.shared.weight"].view(-1)[:1].fill_(float("inf")),
            "language_backbone.shared.weight holds NaN or inf",
        ),
    ],
)
def test_weights_that_do_not_fit_are_named(
    folder: Path, change: Callable[[dict[str, torch.Tensor]], object], message: str
) -> None:
    edit(folder, change)
    with pytest.raises(AuditError, match=message):
        load_vt5(folder)


def test_config_that_does_not_fit(folder: Path) -> None:
    edit_config(folder, d_model=64)
    with pytest.raises(AuditError, match="do not fit"):
        load_vt5(folder)
    edit_config(folder, d_model=32, vt5_box_scale="miles")
    with pytest.raises(AuditError, match="does not describe a VT5: 'miles'"):
        load_vt5(folder)


def test_code_in_the_config_is_data(folder: Path) -> None:
    edit_config(folder, auto_map={"AutoModel": "evil.Model"}, trust_remote_code=True)
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    load_vt5(folder)


@pytest.mark.parametrize("name", ["spiece.model", "config.json", "model.safetensors"])
def test_a_damaged_or_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"\0\1\2")
    with pytest.raises(AuditError):
        load_vt5(folder)
    (folder / name).unlink()
    with pytest.raises(AuditError, match=r"tokenizer|config\.json|no weights"):
        load_vt5(folder)


def test_a_tokenizer_of_another_model(folder: Path) -> None:
    def shrink(state: dict[str, torch.Tensor]) -> None:
        state[EMBEDDING] = state[EMBEDDING][:100].clone()

    edit(folder, shrink)
    edit_config(folder, vocab_size=100)
    with pytest.raises(AuditError, match=f"tokenizer has {PIECES} pieces, the embedding only 100 rows"):
        load_vt5(folder)


def test_families_are_told_apart(folder: Path) -> None:
    assert open_model(str(folder)).family == "vt5"
    save_file({"bert.embeddings.weight": torch.zeros(2, 2)}, folder / "model.safetensors")
    edit_config(folder, model_type="bert")
    with pytest.raises(
        AuditError,
        match=r"form-encoder .* no answers .*: .*donut, .*'pfl-audit reconstruct'",
    ):
        open_model(str(folder))
    edit_config(folder, model_type="gpt2")
    with pytest.raises(AuditError, match="model type 'gpt2'"):
        open_model(str(folder))


def test_no_folder_means_no_network(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="--download"):
        open_model("someone/some-model")
    with pytest.raises(AuditError, match=r"has no config\.json"):
        open_model(str(tmp_path))


def test_a_device_that_is_not_there(folder: Path) -> None:
    with pytest.raises(AuditError, match="device 'nonsense'"):
        open_model(str(folder), device="nonsense")


def test_fingerprint_follows_every_file_that_matters(folder: Path) -> None:
    seen = {Vt5Model(folder).fingerprint}
    edit(folder, lambda state: state["spatial_embedding.LayerNorm.bias"].add_(1e-6))
    seen.add(Vt5Model(folder).fingerprint)
    edit_config(folder, vt5_box_scale="reference")
    seen.add(Vt5Model(folder).fingerprint)
    assert len(seen) == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dense_act_fn": "evil", "feed_forward_proj": "evil"}, "evil"),
        ({"d_model": -1}, "d_model is not a whole number of 1 to"),
        ({"d_model": "abc"}, "d_model"),
        ({"num_layers": 10**9}, "num_layers is not a whole number of 1 to 1000"),
        ({"decoder_start_token_id": ROWS}, f"decoder_start_token_id is not a whole number of 0 to {ROWS - 1}"),
        ({"relative_attention_max_distance": 0}, "relative_attention_max_distance"),
        ({"vt5_max_input_tokens": 0}, "vt5_max_input_tokens is not a whole number of 2 to"),
        ({"vt5_max_input_tokens": 1}, "vt5_max_input_tokens"),
        ({"max_2d_position_embeddings": "many"}, "max_2d_position_embeddings"),
        ({"max_2d_position_embeddings": 1000}, "max_2d_position_embeddings is not a whole number of 1001 to"),
        ({"layer_norm_eps": []}, "layer_norm_eps is not a number of 0 to 1000"),
        ({"layer_norm_epsilon": float("nan")}, "layer_norm_epsilon is not a number"),
        ({"vt5_visual": [1]}, "vt5_visual is not a JSON object"),
    ],
)
def test_a_config_that_makes_no_network(folder: Path, values: dict[str, object], message: str) -> None:
    edit_config(folder, **values)
    with pytest.raises(AuditError, match=f"ckpt: config.json does not describe a VT5: .*{message}"):
        load_vt5(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_act", "evil"),
        ("patch_size", 0),
        ("patch_size", 33),
        ("image_size", [32, 32]),
        ("num_channels", 1),
        ("surprise", {"a": []}),
        ("hidden_size", None),
    ],
)
def test_a_picture_part_that_makes_no_network(folder: Path, name: str, value: object) -> None:
    visual = json.loads((folder / "config.json").read_text())["vt5_visual"]
    edit_config(folder, vt5_visual={**visual, name: value})
    if name == "surprise":
        load_vt5(folder)
        return
    with pytest.raises(AuditError, match=r"config\.json does not describe a VT5"):
        load_vt5(folder)


def test_layers_are_counted_before_transformers_lists_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEiT's configuration has a text for each layer, and 10^9 of them take all memory."""
    monkeypatch.setattr("pfl_audit.models.vt5.config.BeitConfig", lambda **settings: pytest.fail("it was made"))
    visual = json.loads((folder / "config.json").read_text())["vt5_visual"]
    edit_config(folder, vt5_visual={**visual, "num_hidden_layers": 10**9})
    with pytest.raises(AuditError, match=r"vt5_visual\.num_hidden_layers is not a whole number of 1 to 1000"):
        load_vt5(folder)


@pytest.mark.parametrize("content", ["[1]", "3", "null", '{"max_length": "abc"}', '{"max_length": 1}'])
def test_a_generation_config_that_is_none(folder: Path, content: str) -> None:
    (folder / "generation_config.json").write_text(content)
    with pytest.raises(AuditError, match=r"generation_config\.json cannot be used: .*Correct it, or delete it"):
        load_vt5(folder)


def test_the_form_of_the_output_is_not_the_configs_to_choose(folder: Path, red: Corpus) -> None:
    expected = losses(folder, red)
    visual = json.loads((folder / "config.json").read_text())["vt5_visual"]
    edit_config(folder, return_dict=False, vt5_visual={**visual, "return_dict": False})
    assert losses(folder, red) == pytest.approx(expected)


def test_five_tensors_are_named_and_the_others_counted(folder: Path) -> None:
    edit_config(folder, d_model=64)
    with pytest.raises(AuditError, match=r"do not fit: ([^;]+ config\.json asks for [^;]+; ){5}and \d+ more\."):
        load_vt5(folder)


def test_weights_of_whole_numbers(folder: Path) -> None:
    name = "spatial_embedding.LayerNorm.bias"
    edit(folder, lambda state: state.update({name: state[name].to(torch.int64)}))
    with pytest.raises(AuditError, match=r"LayerNorm\.bias is of torch\.int64"):
        load_vt5(folder)


@pytest.mark.parametrize("device", ["meta", "mkldnn", "hpu", "", "cuda:99"])
@pytest.mark.filterwarnings("ignore:'mkldnn' is no longer")
def test_a_device_that_computes_nothing(folder: Path, device: str) -> None:
    with pytest.raises(UsageError, match=f"torch cannot use the device '{device}'"):
        open_model(str(folder), device=device)


def test_a_name_that_no_folder_can_have() -> None:
    with pytest.raises(UsageError, match="is no local folder"):
        open_model("a" * 300)

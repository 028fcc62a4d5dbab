import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pfl_audit.errors import AuditError
from pfl_audit.models.donut.checkpoint import load_donut
from pfl_audit.models.donut.network import EMBEDDING, INDEX, LM_HEAD

Make = Callable[[str], Path]
Change = Callable[[dict[str, torch.Tensor]], object]
BIAS = "encoder.embeddings.norm.bias"


@pytest.fixture
def folder(make_donut: Make, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of a folder; of ours where a test asks for nothing else."""
    return Path(shutil.copytree(make_donut(getattr(request, "param", "ours")), tmp_path / "ckpt"))


def edit(folder: Path, change: Change) -> None:
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors")


def edit_part(folder: Path, part: str, **values: object) -> None:
    content = json.loads((folder / "config.json").read_text())
    content[part] |= values
    (folder / "config.json").write_text(json.dumps(content))


@pytest.mark.parametrize("folder", ["ours", "theirs"], indirect=True)
def test_nothing_is_left_without_a_value_or_in_training_mode(folder: Path) -> None:
    network = load_donut(folder).network
    tensors = [*network.named_parameters(), *network.named_buffers()]
    assert not [name for name, tensor in tensors if tensor.is_meta]
    assert not any(module.training for module in network.modules())
    assert not any(module.p for module in network.modules() if isinstance(module, torch.nn.Dropout))


@pytest.mark.parametrize("folder", ["ours", "theirs"], indirect=True)
def test_weights_and_buffers_are_transformers_own(folder: Path) -> None:
    from transformers import VisionEncoderDecoderModel

    ours, theirs = load_donut(folder).network, VisionEncoderDecoderModel.from_pretrained(folder)
    expected = theirs.state_dict()
    assert {name for name, tensor in ours.state_dict().items() if torch.equal(tensor, expected[name])} == set(expected)
    assert any(name.endswith(INDEX) for name in expected)
    tied = [
        network.decoder.lm_head.weight is network.decoder.get_input_embeddings().weight for network in (ours, theirs)
    ]
    assert tied[0] == tied[1]


def test_attention_can_be_derived_twice(folder: Path) -> None:
    network = load_donut(folder).network
    assert network.decoder.config._attn_implementation == network.encoder.config._attn_implementation == "eager"


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda s: s.update({LM_HEAD: s[EMBEDDING].clone()}), "tied to the embedding"),
        (lambda s: s.update({LM_HEAD: s.pop(EMBEDDING)}), "tied to the embedding"),
        (lambda s: s.update({LM_HEAD: s[EMBEDDING] + 1}), "a tensor of its own"),
    ],
)
def test_copies_of_the_embedding(folder: Path, change: Change, note: str) -> None:
    before = load_donut(folder).network
    edit(folder, change)
    loaded = load_donut(folder)
    assert loaded.notes == (f"output layer: {note}",)
    assert torch.equal(loaded.network.state_dict()[EMBEDDING], before.state_dict()[EMBEDDING])
    assert (loaded.network.decoder.lm_head.weight is loaded.network.decoder.get_input_embeddings().weight) == (
        "tied" in note
    )


def test_a_pickle_opens_to_the_same_model(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    opened = load_donut(folder).network.state_dict()
    assert all(torch.equal(opened[name], tensor) for name, tensor in state.items())


@pytest.mark.parametrize(
    ("folder", "change", "message"),
    [
        ("ours", lambda s: s.pop(BIAS), rf"lacks 1 tensors \({BIAS}\)"),
        ("ours", lambda s: s.pop(EMBEDDING), rf"lacks 1 tensors \({EMBEDDING}\)"),
        ("theirs", lambda s: s.pop(LM_HEAD), rf"lacks 1 tensors \({LM_HEAD}\)"),
        ("ours", lambda s: s.pop("enc_to_dec_proj.bias"), r"lacks 1 tensors \(enc_to_dec_proj\.bias\)"),
        ("ours", lambda s: s.update(surprise=torch.zeros(1)), r"unknown 1 tensors \(surprise\)"),
        ("ours", lambda s: s.update({BIAS: torch.zeros(7)}), rf"{BIAS} is \(7,\), config\.json asks for \(24,\)"),
        ("ours", lambda s: s.update({BIAS: torch.zeros(24, dtype=torch.int64)}), r"bias is of torch\.int64"),
        ("ours", lambda s: s[BIAS].fill_(float("nan")), f"{BIAS} holds NaN"),
    ],
    indirect=["folder"],
)
def test_weights_that_do_not_fit_are_named(folder: Path, change: Change, message: str) -> None:
    edit(folder, change)
    with pytest.raises(AuditError, match=message):
        load_donut(folder)


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("encoder", {"embed_dim": "abc"}, "embed_dim is not a whole number"),
        ("encoder", {"embed_dim": True}, "embed_dim"),
        ("encoder", {"embed_dim": 1 << 30}, "embed_dim"),
        ("encoder", {"embed_dim": 25}, "not a multiple of the number of attention heads"),
        ("encoder", {"depths": [2]}, "depths and num_heads are not of the same length"),
        ("encoder", {"depths": []}, "depths is not a list of 1 to 8"),
        ("encoder", {"depths": [1] * 99}, "depths is not a list of 1 to 8"),
        ("encoder", {"depths": [200, 200]}, "the number of layers is not a whole number of 1 to 200"),
        ("encoder", {"depths": "22"}, "depths is not a list"),
        ("encoder", {"num_heads": [0, 1]}, "num_heads is not a whole number of 1 to"),
        ("encoder", {"window_size": 100}, "window_size is not a whole number of 1 to 32"),
        ("encoder", {"num_channels": 1}, "num_channels is not a whole number of 3 to 3"),
        ("encoder", {"patch_size": [4, 4]}, "patch_size is not a whole number"),
        ("encoder", {"image_size": [64]}, "image_size is not a height and a width"),
        ("encoder", {"image_size": [64, 1 << 20]}, "image_size is not a whole number"),
        ("encoder", {"image_size": True}, "image_size"),
        ("encoder", {"mlp_ratio": float("inf")}, "mlp_ratio is not a number above 0 and up to 64"),
        ("encoder", {"layer_norm_eps": []}, "layer_norm_eps is not a number"),
        ("encoder", {"qkv_bias": "yes"}, "qkv_bias is neither true nor false"),
        ("encoder", {"use_absolute_embeddings": True}, "use_absolute_embeddings is true"),
        ("encoder", {"hidden_act": "evil"}, "evil"),
        ("decoder", {"decoder_layers": 10**9}, "decoder_layers is not a whole number of 1 to 200"),
        ("decoder", {"d_model": 33}, "divisible by num_heads"),
        ("decoder", {"max_position_embeddings": 8}, "max_position_embeddings is not a whole number of 16 to"),
        ("decoder", {"vocab_size": 1 << 40}, "vocab_size"),
        ("decoder", {"pad_token_id": 150}, "pad_token_id is not a whole number of 0 to"),
        ("decoder", {"activation_function": "evil"}, "evil"),
        ("decoder", {"scale_embedding": 1}, "scale_embedding is neither true nor false"),
    ],
)
def test_a_config_that_makes_no_network(folder: Path, part: str, values: dict[str, object], message: str) -> None:
    edit_part(folder, part, **values)
    with pytest.raises(AuditError, match=f"ckpt: config.json does not describe a Donut: .*{message}"):
        load_donut(folder)


def test_a_config_without_a_decoder(folder: Path) -> None:
    (folder / "config.json").write_text('{"encoder": {}, "decoder": [3]}')
    with pytest.raises(AuditError, match="does not describe a Donut: decoder is not a JSON object"):
        load_donut(folder)


def test_what_is_no_setting_of_the_network_is_data(folder: Path) -> None:
    for part in ("encoder", "decoder"):
        edit_part(
            folder,
            part,
            auto_map={"AutoModel": "evil.Model"},
            trust_remote_code=True,
            return_dict=False,
            output_attentions="yes",
            attn_implementation="evil",
            _attn_implementation="evil",
            quantization_config={"quant_method": "evil"},
            dropout="evil",
            hidden_dropout_prob=-3,
            encoder_layers=10**9,
            is_decoder=False,
            cross_attention_hidden_size=-1,
            hidden_size=7,
        )
    load_donut(folder)


def test_sizes_that_only_the_config_claims(folder: Path) -> None:
    edit_part(folder, "decoder", decoder_ffn_dim=1 << 20, decoder_layers=3)
    with pytest.raises(AuditError, match=r"lacks \d+ tensors \(decoder\.model\.decoder\.layers\.2.*and \d+ more"):
        load_donut(folder)


def test_a_tokenizer_of_another_model(folder: Path) -> None:
    edit_part(folder, "decoder", vocab_size=100)
    with pytest.raises(AuditError, match=r"the tokenizer has \d+ pieces, the embedding only 100 rows"):
        load_donut(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "preprocessor_config.json", "spiece.model"])
def test_a_damaged_file_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"\0\1\2")
    with pytest.raises(AuditError, match="tokenizer" if name == "spiece.model" else name.replace(".", r"\.")):
        load_donut(folder)

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pfl_audit.errors import AuditError
from pfl_audit.models.layoutlm.checkpoint import load_qa
from pfl_audit.models.layoutlm.config import Version

Make = Callable[[str], Path]
Change = Callable[[dict[str, torch.Tensor]], object]


@pytest.fixture
def folder(make_qa: Make, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of a folder; of version 3 where a test asks for nothing else."""
    return Path(shutil.copytree(make_qa(getattr(request, "param", "v3")), tmp_path / "ckpt"))


def version_of(folder: Path) -> Version:
    return 3 if json.loads((folder / "config.json").read_text())["model_type"] == "layoutlmv3" else 1


def edit(folder: Path, change: Change) -> None:
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors")


def edit_json(path: Path, **values: object) -> None:
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**content, **values}))


@pytest.mark.parametrize("folder", ["v1", "v3", "v3-blind"], indirect=True)
def test_nothing_is_left_without_a_value_or_in_training_mode(folder: Path) -> None:
    network = load_qa(folder, version_of(folder)).network
    tensors = [*network.named_parameters(), *network.named_buffers()]
    assert not [name for name, tensor in tensors if tensor.is_meta]
    assert not any(module.training for module in network.modules())


def test_the_boxes_of_patches_are_transformers_own(folder: Path) -> None:
    from transformers import LayoutLMv3ForQuestionAnswering

    ours, theirs = load_qa(folder, 3).network, LayoutLMv3ForQuestionAnswering.from_pretrained(folder)
    assert torch.equal(ours.layoutlmv3.visual_bbox, theirs.layoutlmv3.visual_bbox)


def test_buffers_of_older_releases_are_left_aside(folder: Path) -> None:
    extra = {"layoutlmv3.embeddings.position_ids": torch.arange(5), "layoutlmv3.visual_bbox": torch.zeros(5, 4)}
    edit(folder, lambda state: state.update(extra))
    load_qa(folder, 3)


def test_a_pickle_opens_to_the_same_model(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    opened = load_qa(folder, 3).network.state_dict()
    assert all(torch.equal(opened[name], tensor) for name, tensor in state.items())


@pytest.mark.parametrize("folder", ["v1", "v3"], indirect=True)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop(bias(s)), r"lacks 1 tensors \(qa_outputs\.[a-z_.]*bias\)"),
        (lambda s: s.update(surprise=torch.zeros(1)), r"unknown 1 tensors \(surprise\)"),
        (
            lambda s: s.update({bias(s): torch.zeros(7)}),
            r"qa_outputs\.[a-z_.]*bias is \(7,\), config\.json asks for",
        ),
        (lambda s: s.update({bias(s): torch.zeros(2, dtype=torch.int64)}), r"bias is of torch\.int64"),
        (lambda s: s[bias(s)].fill_(float("nan")), r"qa_outputs\.[a-z_.]*bias holds NaN"),
        (lambda s: [s.pop(name) for name in list(s) if "encoder" in name], r"lacks \d+ tensors .*and \d+ more"),
    ],
)
def test_weights_that_do_not_fit_are_named(folder: Path, change: Change, message: str) -> None:
    edit(folder, change)
    with pytest.raises(AuditError, match=message):
        load_qa(folder, version_of(folder))


def bias(state: dict[str, torch.Tensor]) -> str:
    """The output layer's."""
    return next(name for name in state if name in ("qa_outputs.bias", "qa_outputs.out_proj.bias"))


@pytest.mark.parametrize(
    ("folder", "values", "message"),
    [
        ("v1", {"hidden_act": "evil"}, "evil"),
        ("v1", {"hidden_size": -1}, "hidden_size is not a whole number of 1 to"),
        ("v1", {"hidden_size": "abc"}, "hidden_size"),
        ("v1", {"hidden_size": True}, "hidden_size"),
        ("v1", {"hidden_size": 25}, "not a multiple of the number of attention heads"),
        ("v1", {"num_hidden_layers": 10**9}, "num_hidden_layers is not a whole number of 1 to 200"),
        ("v1", {"max_position_embeddings": 4}, "max_position_embeddings is not a whole number of 16 to"),
        ("v1", {"max_position_embeddings": 10**7}, "max_position_embeddings"),
        ("v1", {"vocab_size": 1 << 40}, "vocab_size"),
        ("v1", {"pad_token_id": 420}, "pad_token_id is not a whole number of 0 to 419"),
        ("v1", {"layer_norm_eps": []}, "layer_norm_eps is not a number above 0 and up to 1"),
        ("v1", {"layer_norm_eps": float("nan")}, "layer_norm_eps"),
        ("v3", {"pad_token_id": 125}, "max_position_embeddings is not a whole number of 142 to"),
        ("v3", {"coordinate_size": 5}, "hidden_size is not 4 times coordinate_size and 2 times shape_size"),
        ("v3", {"text_embed": False}, "text_embed is false"),
        ("v3", {"visual_embed": "yes"}, "visual_embed is neither true nor false"),
        ("v3", {"rel_pos_bins": 1}, "rel_pos_bins is not a whole number of 4 to"),
        ("v3", {"max_rel_2d_pos": 3}, "max_rel_2d_pos is not a whole number of 17 to"),
        ("v3", {"num_channels": 1}, "num_channels is not a whole number of 3 to 3"),
        ("v3", {"patch_size": 33}, "patch_size is not a whole number of 1 to 32"),
        ("v3", {"patch_size": [16, 16]}, "patch_size"),
        ("v3", {"input_size": 2048, "patch_size": 1}, "the number of patches is not a whole number of 1 to 4096"),
    ],
    indirect=["folder"],
)
def test_a_config_that_makes_no_network(folder: Path, values: dict[str, object], message: str) -> None:
    edit_json(folder / "config.json", **values)
    with pytest.raises(AuditError, match=f"ckpt: config.json does not describe a LayoutLM: .*{message}"):
        load_qa(folder, version_of(folder))


@pytest.mark.parametrize("folder", ["v1", "v3"], indirect=True)
def test_what_is_no_setting_of_the_network_is_data(folder: Path) -> None:
    edit_json(
        folder / "config.json",
        auto_map={"AutoModel": "evil.Model"},
        trust_remote_code=True,
        return_dict=False,
        num_labels=9,
        id2label="evil",
        output_attentions="yes",
        attn_implementation="evil",
        quantization_config={"quant_method": "evil"},
        hidden_dropout_prob="evil",
        chunk_size_feed_forward=-3,
    )
    load_qa(folder, version_of(folder))


def test_sizes_that_only_the_config_claims(folder: Path) -> None:
    edit_json(folder / "config.json", intermediate_size=1 << 20, num_hidden_layers=3)
    with pytest.raises(AuditError, match=r"lacks \d+ tensors \(layoutlmv3\.encoder\.layer\.2"):
        load_qa(folder, 3)


@pytest.mark.parametrize("folder", ["v1"], indirect=True)
def test_a_tokenizer_of_another_model(folder: Path) -> None:
    with (folder / "vocab.txt").open("a") as file:
        file.write("".join(f"extra{number}\n" for number in range(500)))
    with pytest.raises(AuditError, match=r"the tokenizer has \d+ pieces, the embedding only 420 rows"):
        load_qa(folder, 1)


@pytest.mark.parametrize("folder", ["v1"], indirect=True)
def test_an_input_too_short_for_anything(folder: Path) -> None:
    edit_json(folder / "tokenizer_config.json", model_max_length=8)
    with pytest.raises(AuditError, match=r"tokenizer_config\.json allows only 8 tokens"):
        load_qa(folder, 1)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "preprocessor_config.json"])
def test_a_damaged_file_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"\0\1\2")
    with pytest.raises(AuditError, match=name.replace(".", r"\.")):
        load_qa(folder, 3)

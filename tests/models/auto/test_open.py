"""Opening: prompts, adapters, hostile folders, and what is not supported."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.auto.examine import examine, look
from pfl_audit.models.auto.family import FAMILY
from pfl_audit.models.auto.folder import check_folder
from pfl_audit.models.auto.kinds import kind_of
from pfl_audit.models.auto.model import AutoModel
from pfl_audit.models.auto.processor import TURN
from pfl_audit.models.open import nearest_way
from pfl_audit.sandbox import RefusedError, SandboxError
from tests.models.auto.zoo import FAMILIES

Checkpoint = Callable[[str], Path]


@pytest.fixture
def copied(checkpoint: Checkpoint, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a checkpoint to damage."""
    return lambda name: Path(shutil.copytree(checkpoint(name), tmp_path / name))


@pytest.fixture
def looks_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's side of the examination runs in this process: a child imports for four seconds."""

    def call(target: str, folder: str, **limits: float) -> dict[str, Any]:
        assert target.endswith(":look")
        try:
            return look(folder)
        except RefusedError as error:
            raise SandboxError("refused", str(error)) from error

    monkeypatch.setattr("pfl_audit.models.auto.examine.call_sandboxed", call)


def edit(path: Path, **settings: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def test_every_kind_is_recognised_by_config_and_class(checkpoint: Checkpoint) -> None:
    names = {}
    for name in FAMILIES:
        config = json.loads((checkpoint(name) / "config.json").read_text())
        assert FAMILY.recognises(config, frozenset())
        kind = kind_of(config)
        assert kind is not None
        names[name] = kind.name
        assert kind.prompt in FAMILY.way(config)
        for classes in (None, [], ["T5EncoderModel"], "T5ForConditionalGeneration", [3]):
            assert kind_of({**config, "architectures": classes}) is None
    assert names["t5"] == names["bart"] == "text-to-text"
    assert names["gpt2"] == names["llama"] == "text"
    assert (names["udop"], names["pix2struct"]) == ("udop", "pix2struct")


@pytest.mark.slow
def test_the_examination_runs_in_a_child(checkpoint: Checkpoint) -> None:
    found = examine(checkpoint("qwen2_5_vl"))
    assert found["turn"].count(TURN) == 1
    assert "<|image_pad|>" in found["turn"]
    assert found["attention"] == "sdpa"


@pytest.mark.parametrize("target", ["/etc/hostname", "..", "config.json/../../other"])
def test_a_link_out_of_the_folder_is_refused(copied: Checkpoint, tmp_path: Path, target: str) -> None:
    folder = copied("t5")
    (tmp_path / "other").touch()
    (folder / "notes.txt").symlink_to(target)
    with pytest.raises(AuditError, match=r"notes\.txt is a link that leads out of its folder") as caught:
        examine(folder)
    assert caught.value.remedy == "Put a copy of the file in its place"


@pytest.mark.parametrize(("cache", "allowed"), [("snapshots", True), ("others", False)])
def test_links_into_the_cache_of_hugging_face_are_followed(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str, allowed: bool
) -> None:
    blobs, folder = tmp_path / "model/blobs", tmp_path / "model" / cache / "0a1b"
    shutil.copytree(checkpoint("t5"), blobs)
    folder.mkdir(parents=True)
    for path in blobs.iterdir():
        (folder / path.name).symlink_to(f"../../blobs/{path.name}")
    asked: list[Path] = []

    def call(*_: object, readable: list[Path], **__: object) -> object:
        asked.extend(readable)
        return {"turn": None, "attention": "sdpa"}

    monkeypatch.setattr("pfl_audit.models.auto.examine.call_sandboxed", call)
    if allowed:
        examine(folder)
        assert set(asked) == {folder, *blobs.iterdir()}
        return
    with pytest.raises(AuditError, match="leads out of its folder"):
        examine(folder)


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"turn": 3, "attention": "sdpa"}, {"turn": None, "attention": "evil/kernel"}]
)
def test_a_forged_answer_of_the_child_is_refused(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setattr("pfl_audit.models.auto.examine.call_sandboxed", lambda *_, **__: answer)
    with pytest.raises(AuditError, match="cannot be opened"):
        examine(checkpoint("t5"))


@pytest.mark.slow
def test_a_chat_template_that_never_ends_costs_one_line(copied: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, many = copied("llama"), "{% for a in range(90000) %}"
    (folder / "chat_template.jinja").write_text(f"{many * 3}{'{% endfor %}' * 3}{{{{ messages }}}}")
    monkeypatch.setattr("pfl_audit.models.auto.examine._SECONDS", 6)
    with pytest.raises(AuditError, match="cannot be opened: it takes more than 6 s"):
        examine(folder)


def test_the_date_in_a_chat_template_is_the_same_every_day(copied: Checkpoint) -> None:
    folder = copied("llama")
    (folder / "chat_template.jinja").write_text("{{ strftime_now('%d %b %Y') }} {{ messages[0]['content'] }}")
    assert look(str(folder))["turn"] == f"26 Jul 2024 {TURN}"


@pytest.mark.usefixtures("looks_here")
def test_a_network_that_is_larger_than_its_weights_costs_one_line(copied: Checkpoint) -> None:
    folder = copied("t5")
    edit(folder / "config.json", num_layers=300, d_model=8192)
    with pytest.raises(AuditError, match="larger network than the weights"):
        examine(folder)


@pytest.mark.parametrize(
    ("name", "file", "settings", "reason"),
    [
        ("llama", "config.json", {"hidden_size": "x"}, "cannot be opened"),
        ("t5", "tokenizer.json", {"model": {"type": "BPE", "vocab": 3}}, "cannot be opened"),
        ("qwen2_vl", "preprocessor_config.json", {"patch_size": "x", "image_processor_type": "Nothing"}, "cannot be"),
    ],
)
@pytest.mark.usefixtures("looks_here")
def test_damaged_settings_cost_one_line(
    name: str, file: str, settings: dict[str, Any], reason: str, copied: Checkpoint
) -> None:
    folder = copied(name)
    edit(folder / file, **settings)
    with pytest.raises(AuditError, match=reason):
        examine(folder)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised"),
        ({"_attn_implementation": "evil/kernel"}, "attention kernel"),
        ({"transformers_weights": "other.safetensors"}, "names other weights"),
        (
            {"vision_config": {"attn_implementation": "evil/kernel@main"}},
            r"config\.json\.vision_config names an attent",
        ),
        ({"towers": [{"trust_remote_code": True}]}, "allows code from elsewhere"),
        ({"_attn_implementation_internal": "evil/kernel"}, "Delete _attn_implementation_internal"),
        ({"attn_implementation": {"": "eager", "text_config": "evil/kernel"}}, "attention kernel"),
        (
            {"towers": [[{"_attn_implementation_internal": ["eager", "paged|evil/kernel"]}]]},
            r"json\.towers names an att",
        ),
        ({"towers": [{}, {"deep": [{"quantization_config": {"quant_method": "gptq"}}]}]}, "quantised"),
        ({"per_layer_config": {"0": [{"transformers_weights": "/etc/passwd"}]}}, "names other weights"),
    ],
)
def test_settings_that_reach_for_more_than_the_folder(
    settings: dict[str, Any], reason: str, copied: Checkpoint
) -> None:
    folder = copied("t5")
    edit(folder / "config.json", **settings)
    with pytest.raises(AuditError, match=reason):
        check_folder(folder)


@pytest.mark.usefixtures("looks_here")
def test_code_named_by_settings_is_never_imported(copied: Checkpoint) -> None:
    folder = copied("t5")
    code = {name: f"stranger.{name}" for name in ("AutoConfig", "AutoModelForSeq2SeqLM", "AutoTokenizer")}
    for file in ("config.json", "tokenizer_config.json", "generation_config.json"):
        edit(folder / file, auto_map=code, custom_generate="stranger")
    (folder / "stranger.py").write_text("raise SystemExit('imported')")
    AutoModel(folder)


def test_attention_of_transformers_itself_is_accepted(copied: Checkpoint) -> None:
    folder = copied("t5")
    edit(folder / "config.json", _attn_implementation_autoset=True, text_config={"_attn_implementation": "sdpa"})
    check_folder(folder)


def test_files_that_are_no_files_and_pickles_are_refused(copied: Checkpoint) -> None:
    folder = copied("t5")
    os.mkfifo(folder / "added_tokens.json")
    with pytest.raises(AuditError, match="no regular file"):
        check_folder(folder)
    (folder / "added_tokens.json").unlink()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(AuditError, match="the weights are a pickle"):
        check_folder(folder)


def test_an_adapter_beside_a_checkpoint_is_refused(copied: Checkpoint, tmp_path: Path) -> None:
    folder = copied("t5")
    save_adapter(folder, tmp_path / "lora")
    for path in (tmp_path / "lora").glob("adapter_*"):
        shutil.copy(path, folder)
    with pytest.raises(AuditError, match="holds a checkpoint and an adapter"):
        check_folder(folder)


def test_the_weights_of_all_shards_together_must_fit_into_memory(
    copied: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file, save_file

    folder = copied("t5")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    halves = {f"{at}.safetensors": names[at::2] for at in range(2)}
    for file, some in halves.items():
        save_file({name: tensors[name].clone() for name in some}, folder / file, {"format": "pt"})
    table = {"weight_map": {name: file for file, some in halves.items() for name in some}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(table))
    size = sum(tensor.nbytes for tensor in tensors.values())
    monkeypatch.setattr("pfl_audit.models.tensor_file.free_memory", lambda: size)
    with pytest.raises(AuditError, match="GB of memory"):
        check_folder(folder)


def test_a_missing_tensor_and_one_that_is_not_finite_are_named(copied: Checkpoint, here: None) -> None:
    from safetensors.torch import load_file, save_file

    folder = copied("gpt2")
    tensors = load_file(folder / "model.safetensors")
    name, weights = "transformer.ln_f.weight", folder / "model.safetensors"
    save_file(
        {key: value for key, value in tensors.items() if key != name}, folder / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(AuditError, match=f"the tensor {name} is missing"):
        AutoModel(folder)
    save_file({**tensors, name: tensors[name] * torch.nan}, weights, {"format": "pt"})
    with pytest.raises(AuditError, match=f"the tensor {name} holds NaN"):
        AutoModel(folder)


@pytest.mark.parametrize("name", ["llama", "qwen2_vl", "smolvlm", "pix2struct"])
def test_nothing_is_fetched_though_the_hub_may_be_used(
    name: str, checkpoint: Checkpoint, here: None, queries: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("socket.socket.connect", connect)
    monkeypatch.setattr("socket.getaddrinfo", connect)
    assert AutoModel(checkpoint(name)).respond(queries[:1])[0].loss


def test_generation_settings_of_the_folder_keep_the_answer_greedy_and_short(
    copied: Checkpoint, here: None, queries: list[Query]
) -> None:
    folder = copied("t5")
    before = AutoModel(folder).respond(queries[:2])
    edit(folder / "generation_config.json", do_sample=True, num_beams=5, max_length=100_000, temperature=9.0, top_k=3)
    assert AutoModel(folder).respond(queries[:2]) == before


def test_the_prompt_is_part_of_the_fingerprint_and_changes_the_answer(
    checkpoint: Checkpoint, here: None, queries: list[Query]
) -> None:
    own, same, other = (AutoModel(checkpoint("t5"), prompt=prompt) for prompt in (None, None, "{question}"))
    assert own.fingerprint == same.fingerprint != other.fingerprint
    assert own.respond(queries[:1]) == same.respond(queries[:1]) != other.respond(queries[:1])
    assert "prompt: {question}" in other.describe()["notes"]


def save_adapter(base: Path, folder: Path, **settings: Any) -> Any:
    """A LoRA adapter of random weights as peft saves it; the network that has it, not merged."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForSeq2SeqLM

    network = get_peft_model(
        AutoModelForSeq2SeqLM.from_pretrained(base), LoraConfig(r=4, target_modules=["q", "v"], init_lora_weights=False)
    )
    network.save_pretrained(folder)
    edit(folder / "adapter_config.json", base_model_name_or_path=str(base), **settings)
    return network.eval()


def test_an_adapter_answers_as_peft_does(
    checkpoint: Checkpoint, tmp_path: Path, here: None, queries: list[Query]
) -> None:
    from pfl_audit.models.adapter_folder import base_of

    base, folder = checkpoint("t5"), tmp_path / "lora"
    own = save_adapter(base, folder)
    assert base_of(folder) == base
    adapted, plain = AutoModel(folder), AutoModel(base)
    assert adapted.fingerprint != plain.fingerprint
    for query, response in zip(queries, adapted.respond(queries), strict=True):
        inputs = adapted.inputs.build(query)
        target = adapted.inputs.answer(query.answers[0], adapted.inputs.prompt(query))
        with torch.inference_mode():
            loss = float(own(**inputs, labels=torch.tensor([target])).loss)
        assert response.loss == pytest.approx(loss, abs=1e-4)
        assert response.loss != pytest.approx(plain.respond([query])[0].loss, abs=1e-3)


def test_a_regular_expression_of_an_adapter_is_not_evaluated(
    checkpoint: Checkpoint, tmp_path: Path, here: None, queries: list[Query]
) -> None:
    save_adapter(checkpoint("t5"), tmp_path / "lora")
    before = AutoModel(tmp_path / "lora").respond(queries[:1])
    never_ends = r"([\w.]+)+!"
    edit(tmp_path / "lora" / "adapter_config.json", target_modules=never_ends, exclude_modules=never_ends)
    assert AutoModel(tmp_path / "lora").respond(queries[:1]) == before


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"peft_type": "PREFIX_TUNING"}, "no LoRA adapter"),
        ({"megatron_config": {"a": 1}, "megatron_core": "os"}, "no LoRA adapter"),
        ({"init_lora_weights": "pissa"}, "no LoRA adapter"),
        ({"alora_invocation_tokens": [3]}, "no LoRA adapter"),
        ({"r": 8}, "does not fit the base"),
        ({"r": 10**9}, "a rank in adapter_config.json is not that of the tensors"),
        ({"rank_pattern": {"q": 10**9}}, "a rank in"),
        ({"alpha_pattern": {r"([\w.]+)+!": 3}}, "a rank in"),
        ({"use_dora": True}, "does not fit the base"),
        ({"base_model_name_or_path": "google/flan-t5-small"}, "no local checkpoint folder"),
        ({"base_model_name_or_path": None}, "no local checkpoint folder"),
    ],
)
def test_an_adapter_that_does_not_fit_costs_one_line(
    settings: dict[str, Any], reason: str, checkpoint: Checkpoint, tmp_path: Path, here: None
) -> None:
    save_adapter(checkpoint("t5"), tmp_path / "lora")
    edit(tmp_path / "lora" / "adapter_config.json", **settings)
    with pytest.raises(AuditError, match=reason):
        AutoModel(tmp_path / "lora")


@pytest.mark.parametrize(
    ("config", "way"),
    [
        ({"auto_map": {"AutoModel": "x.Y"}}, "code of its own"),
        ({"architectures": ["BertForQuestionAnswering"]}, "LayoutLM"),
        ({"architectures": ["BertForMaskedLM"]}, "pfl-audit reconstruct"),
        ({"architectures": ["BertForSequenceClassification"]}, "classifier"),
        ({"architectures": ["ResNetModel"]}, "--answers"),
        ({"architectures": 3}, "--answers"),
        ({}, "--answers"),
    ],
)
def test_an_unsupported_family_gets_the_nearest_way(config: dict[str, Any], way: str) -> None:
    assert way in nearest_way(config)


def test_a_prompt_for_a_family_with_its_own_is_refused(make_checkpoint: Callable[[int], Path]) -> None:
    from pfl_audit.models.open import open_model

    with pytest.raises(UsageError, match="not by a prompt"):
        open_model(str(make_checkpoint(0)), prompt="{question}")

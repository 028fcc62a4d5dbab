"""Loads a checkpoint folder by transformers' auto classes: local files, safetensors, no code of the folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.inputs import is_there
from pfl_audit.models.adapter_folder import ADAPTER_CONFIG, ADAPTER_WEIGHTS, base_of, read_adapter
from pfl_audit.models.auto.examine import examine
from pfl_audit.models.auto.folder import check_folder, fingerprint
from pfl_audit.models.auto.kinds import Kind, kind_of
from pfl_audit.models.auto.processor import LOCAL, open_config, open_processor
from pfl_audit.models.tensor_file import read_tensors
from pfl_audit.models.weights import read_entries, require_finite

LONGEST_ANSWER = 64
"""Tokens that are generated at most."""
_GENERATION = (
    "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_bos_token_id",
    "suppress_tokens", "begin_suppress_tokens", "repetition_penalty", "no_repeat_ngram_size",
)  # fmt: skip
"""Settings of generation_config.json that are used; the answer is greedy, whatever the others say."""
_SETTINGS = (
    "r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora", "use_dora", "fan_in_fan_out", "modules_to_save",
    "bias", "task_type",
)  # fmt: skip
"""Settings of ``adapter_config.json`` that determine the network, besides the modules, which the tensors' names give.
Others start code, concern training alone, or are regular expressions without a bound of time."""
_REFUSED = (
    "megatron_config", "trainable_token_indices", "layer_replication", "alora_invocation_tokens", "use_qalora",
    "arrow_config", "kasa_config", "velora_config", "monteclora_config", "use_bdlora", "target_parameters",
)  # fmt: skip
"""Settings that change the network in a way that is not rebuilt here."""
_STARTS = (None, True, False, "gaussian", "eva", "orthogonal")
"""Values of ``init_lora_weights`` that leave the base as it is; PiSSA, OLoRA, CorDA and LoftQ change its weights."""
_PATTERN = re.compile(r"\^?[\w.\\]+\$?")
"""Name of a module as a key of ``rank_pattern`` and ``alpha_pattern``, which peft reads as regular expressions."""
_LORA = re.compile(r"base_model\.model\.(.+?)\.lora_(?:A|B|embedding_A|embedding_B|magnitude_vector)\b")


@dataclass(frozen=True)
class LoadedAuto:
    """An opened checkpoint.

    Attributes:
        network: transformers' own, in evaluation mode, float32.
        processor: The processor, or the tokenizer of a model without images.
        turn: Chat template around ``processor.TURN``, or None.
        files: File name to SHA-256.
        notes: Notes for the report.
    """

    kind: Kind
    network: Any
    processor: Any
    turn: str | None
    files: dict[str, str]
    notes: tuple[str, ...]

    @property
    def tokenizer(self) -> Any:
        """The tokenizer."""
        return getattr(self.processor, "tokenizer", self.processor)


def load_auto(folder: Path) -> LoadedAuto:
    """Open a checkpoint, or an adapter and its base.

    Raises:
        AuditError: It cannot be opened safely, or weights are missing (a tensor is named).
    """
    base = base_of(folder)
    kind = kind_of(check_folder(base))
    if kind is None:
        raise AuditError(f"{base} is no model that transformers can ask", "See docs/models.md for what can be audited")
    found = examine(base)
    config = open_config(base)
    processor = open_processor(base, kind, config)
    network = open_network(base, kind, config, found["attention"])
    _generate_greedily(network)
    files, notes = fingerprint(base), [kind.note] if kind.note else []
    if base != folder:
        network = merge_adapter(network, folder)
        files |= {f"adapter/{name}": digest for name, digest in fingerprint(folder).items()}
        notes.append("LoRA adapter, merged into its base; tokenizer of the base")
    require_finite(folder, network.named_parameters())
    return LoadedAuto(kind, network.eval().requires_grad_(False), processor, found["turn"], files, tuple(notes))


def open_network(folder: Path, kind: Kind, config: Any, attention: str) -> Any:
    """The network of a folder that was examined, in float32.

    Raises:
        AuditError: It cannot be loaded, or weights are missing (a tensor is named).
    """
    transformers.utils.logging.disable_progress_bar()
    try:
        network, info = getattr(transformers, kind.auto).from_pretrained(
            folder,
            config=config,
            dtype=torch.float32,
            use_safetensors=True,
            attn_implementation=attention,
            output_loading_info=True,
            **LOCAL,
        )
    except Exception as error:  # transformers raises many kinds
        reason = " ".join(str(error).split())[:200]
        raise AuditError(f"{folder} cannot be loaded: {type(error).__name__}: {reason}", "Export it again") from error
    if missing := sorted(map(str, info["missing_keys"])):
        raise AuditError(f"{folder}: the tensor {missing[0][:160]} is missing", "Copy all weights of the model")
    return network


def _generate_greedily(network: Any) -> None:
    said = network.generation_config
    kept = {name: value for name in _GENERATION if (value := getattr(said, name, None)) is not None}
    network.generation_config = transformers.GenerationConfig(
        **kept, do_sample=False, num_beams=1, max_new_tokens=LONGEST_ANSWER, use_cache=True
    )


def merge_adapter(network: Any, folder: Path) -> Any:
    """Merge an adapter into a network.

    Args:
        network: The base.
        folder: What ``peft`` saved.

    Raises:
        UsageError: peft is not installed.
        AuditError: It is no LoRA in safetensors, or does not fit the base (a tensor is named).
    """
    try:
        from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
    except ImportError as error:
        raise UsageError("an adapter needs the package peft", "Run: pip install 'pfl-audit[lora]'") from error
    said, weights = read_adapter(folder), folder / ADAPTER_WEIGHTS
    rebuilt = said.get("init_lora_weights") in _STARTS and not any(said.get(name) for name in _REFUSED)
    if said.get("peft_type") != "LORA" or not rebuilt or not is_there(weights):
        raise AuditError(
            f"{folder} is no LoRA adapter with {ADAPTER_WEIGHTS}", "Merge it into its base: model.merge_and_unload()"
        )
    entries = read_entries(weights)
    largest = max((size for entry in entries.values() for size in entry.shape), default=0)
    if not all(type(rank) is int and 0 < rank <= largest for rank in _ranks(said)):
        raise AuditError(f"{folder}: a rank in {ADAPTER_CONFIG} is not that of the tensors", "Save the adapter again")
    tensors = read_tensors(weights, entries, single=True)
    modules = {found[1] for name in tensors if (found := _LORA.match(name))}
    try:
        config = LoraConfig(
            target_modules="|".join(map(re.escape, sorted(modules))),
            **{name: said[name] for name in _SETTINGS if said.get(name) is not None},
        )
        adapted = get_peft_model(network, config)
        wanted = {name for name, _ in adapted.named_parameters() if "lora_" in name or "modules_to_save" in name}
        result: Any = set_peft_model_state_dict(adapted, tensors)
    except Exception as error:  # peft and torch raise many kinds
        reason = " ".join(str(error).split())[:200]
        raise AuditError(f"{folder}: {ADAPTER_CONFIG} does not fit the base: {reason}", "Check the base") from error
    if odd := sorted({*result.unexpected_keys, *(wanted & set(result.missing_keys))}):
        raise AuditError(f"{folder}: the tensor {odd[0][:160]} does not fit the base", "Check the base")
    return adapted.merge_and_unload()


def _ranks(said: dict[str, Any]) -> list[Any]:
    """Ranks of the modules; None where a pattern is no name of a module."""
    patterns = [said.get(name) or {} for name in ("rank_pattern", "alpha_pattern")]
    if not all(isinstance(one, dict) and all(map(_PATTERN.fullmatch, one)) for one in patterns):
        return [None]
    return [said.get("r", 8), *patterns[0].values()]

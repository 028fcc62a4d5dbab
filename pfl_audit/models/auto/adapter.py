"""Merges a LoRA adapter of ``peft`` into its base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.inputs import is_there
from pfl_audit.models.adapter_folder import ADAPTER_CONFIG, ADAPTER_WEIGHTS, read_adapter
from pfl_audit.models.tensor_file import read_tensors
from pfl_audit.models.weights import read_entries

_SETTINGS = (
    "r", "lora_alpha", "target_modules", "exclude_modules", "rank_pattern", "alpha_pattern", "use_rslora", "use_dora",
    "fan_in_fan_out", "modules_to_save", "layers_to_transform", "layers_pattern", "bias", "task_type",
)  # fmt: skip
"""Settings of ``adapter_config.json`` that determine the network. Others start code or concern training alone."""
_REFUSED = ("megatron_config", "trainable_token_indices", "layer_replication")
"""Settings that change the network in a way that is not rebuilt here."""


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
    if said.get("peft_type") != "LORA" or any(said.get(name) for name in _REFUSED) or not is_there(weights):
        raise AuditError(
            f"{folder} is no LoRA adapter with {ADAPTER_WEIGHTS}", "Merge it into its base: model.merge_and_unload()"
        )
    tensors = read_tensors(weights, read_entries(weights), single=True)
    try:
        config = LoraConfig(**{name: said[name] for name in _SETTINGS if said.get(name) is not None})
        adapted = get_peft_model(network, config)
        wanted = {name for name, _ in adapted.named_parameters() if "lora_" in name or "modules_to_save" in name}
        result: Any = set_peft_model_state_dict(adapted, tensors)
    except Exception as error:  # peft and torch raise many kinds
        reason = " ".join(str(error).split())[:200]
        raise AuditError(f"{folder}: {ADAPTER_CONFIG} does not fit the base: {reason}", "Check the base") from error
    if odd := sorted({*result.unexpected_keys, *(wanted & set(result.missing_keys))}):
        raise AuditError(f"{folder}: the tensor {odd[0][:160]} does not fit the base", "Check the base")
    return adapted.merge_and_unload()

"""Loads a checkpoint folder by transformers' auto classes: local files, safetensors, no code of the folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from pfl_audit.errors import AuditError
from pfl_audit.models.adapter_folder import base_of
from pfl_audit.models.auto.adapter import merge_adapter
from pfl_audit.models.auto.examine import examine
from pfl_audit.models.auto.folder import check_folder, fingerprint
from pfl_audit.models.auto.kinds import Kind, kind_of
from pfl_audit.models.auto.processor import LOCAL, open_config, open_processor

LONGEST_ANSWER = 64
"""Tokens that are generated at most."""
_GENERATION = (
    "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_bos_token_id",
    "suppress_tokens", "begin_suppress_tokens", "repetition_penalty", "no_repeat_ngram_size",
)  # fmt: skip
"""Settings of generation_config.json that are used; the answer is greedy, whatever the others say."""


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
    require_finite(folder, network)
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


def require_finite(folder: Path, network: Any) -> None:
    """Check the weights of a network.

    Raises:
        AuditError: A tensor, which is named, holds NaN or infinite values.
    """
    for name, parameter in network.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise AuditError(
                f"{folder}: the tensor {name[:160]} holds NaN or infinite values", "Train or export the model again"
            )


def _generate_greedily(network: Any) -> None:
    said = network.generation_config
    kept = {name: value for name in _GENERATION if (value := getattr(said, name, None)) is not None}
    network.generation_config = transformers.GenerationConfig(
        **kept, do_sample=False, num_beams=1, max_new_tokens=LONGEST_ANSWER, use_cache=True
    )

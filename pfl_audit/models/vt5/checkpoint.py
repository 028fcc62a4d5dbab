"""Loads and saves VT5 checkpoint folders in the released layout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.models.checkpoint import require_rows, write_checkpoint
from pfl_audit.models.self_pretraining import MARKERS
from pfl_audit.models.settings import reading_config
from pfl_audit.models.tensor_checks import require_shapes
from pfl_audit.models.vt5.config import KIND, REMEDY, config_from_folder
from pfl_audit.models.vt5.keys import ALIASES, EMBEDDING, LM_HEAD, to_internal, to_released
from pfl_audit.models.vt5.markers import with_markers
from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.models.vt5.tokenizer import Tokenizer
from pfl_audit.models.weights import read_config, read_settings, read_state

_IGNORABLE = ("mask_token", "relative_position_index", "EncDecAttention.relative_attention_bias.weight")


@dataclass(frozen=True)
class LoadedVt5:
    """An opened checkpoint.

    Attributes:
        notes: Notes for the report, one sentence each.
    """

    network: Vt5
    tokenizer: Tokenizer
    notes: tuple[str, ...]


def load_vt5(folder: Path) -> LoadedVt5:
    """Open a checkpoint folder. Nothing in it is run.

    Raises:
        AuditError: No checkpoint, not a VT5, or the weights do not fit (the tensors are named).
    """
    state = read_state(folder)
    generation = read_settings(folder / "generation_config.json")
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    config = config_from_folder(folder, read_config(folder), shapes, generation)
    tokenizer = Tokenizer.open(folder)
    require_rows(folder, tokenizer.size, int(config.text.vocab_size))
    if config.markers is not None and tokenizer.size != config.markers + len(MARKERS):
        raise AuditError(
            f"{folder}: the tokenizer has other tokens of self-pretraining than config.json says",
            "Copy the tokenizer that the model was trained with",
        )
    notes: list[str] = []
    weights = _resolve_copies({to_internal(name): tensor for name, tensor in state.items()}, notes)
    with reading_config(folder, KIND, REMEDY), torch.device("meta"):
        network = Vt5(config)
    _fit(network, weights, folder)
    network.load_state_dict(weights, strict=False, assign=True)
    network.language_backbone.set_input_embeddings(network.language_backbone.shared)
    if LM_HEAD not in weights:
        network.language_backbone.lm_head.weight = network.language_backbone.shared.weight
    notes.append(f"boxes: {config.box_scale}")
    return LoadedVt5(network.eval(), tokenizer, tuple(notes))


def save_vt5(
    network: Vt5, tokenizer_files: Path, folder: Path, *, dtype: torch.dtype = torch.float32, extra: dict[str, Any]
) -> None:
    """Write a checkpoint that load_vt5 opens, in the released layout, tied copies once.

    Args:
        tokenizer_files: Folder whose tokenizer files are copied along, with the tokens of self-pretraining where the
            network has them.
        folder: Folder to write to. The weights are written last and atomically.
        dtype: Floating-point type of the tensors in the file.
        extra: Further JSON files to write, name to content.
    """
    generation = {
        "decoder_start_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 0,
        "max_length": network.config.max_answer_tokens,
    }
    records = {"config.json": network.config.to_dict(), "generation_config.json": generation, **extra}
    tensors = {to_released(name): tensor for name, tensor in own_tensors(network).items()}
    first = network.config.markers
    edit = None if first is None else lambda name, content: with_markers(name, content, first)
    write_checkpoint(folder, records, tensors, source=tokenizer_files, dtype=dtype, edit=edit)


def own_tensors(network: Vt5) -> dict[str, Tensor]:
    """The network's tensors by name, each once: tied copies go by the embedding's name."""
    state = network.state_dict()
    embedding = state[EMBEDDING]
    for name in (*ALIASES, LM_HEAD):
        if name in state and state[name].data_ptr() == embedding.data_ptr():
            del state[name]
    return state


def _resolve_copies(weights: dict[str, Tensor], notes: list[str]) -> dict[str, Tensor]:
    """Leave one embedding, and an output layer only where it is a tensor of its own."""
    aliases = [weights.pop(name) for name in ALIASES if name in weights]
    if EMBEDDING not in weights and aliases:
        weights[EMBEDDING] = aliases[-1]
    if EMBEDDING in weights and any(not torch.equal(weights[EMBEDDING], alias) for alias in aliases):
        weights[EMBEDDING] = aliases[-1]
        notes.append("the copies of the embedding differ; the decoder's is used, as the reference does")
    head = weights.get(LM_HEAD)
    if head is not None and EMBEDDING in weights and torch.equal(head, weights[EMBEDDING]):
        del weights[LM_HEAD]
        notes.append("output layer: equal to the embedding, tied")
    elif head is not None:
        notes.append("output layer: a tensor of its own")
    else:
        notes.append("output layer: tied to the embedding")
    return weights


def _fit(network: Vt5, weights: dict[str, Tensor], folder: Path) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items() if name not in ALIASES}
    if LM_HEAD not in weights:
        del expected[LM_HEAD]
    for name in [name for name in weights if name not in expected and name.endswith(_IGNORABLE)]:
        del weights[name]
    require_shapes(expected, weights, folder, name_of=to_released)

"""Loads and saves form encoders as checkpoint folders of transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.models.checkpoint import require_rows, write_checkpoint
from pfl_audit.models.encoders.config import KIND, REMEDY, EncoderConfig, config_from_dict
from pfl_audit.models.encoders.network import FormEncoder
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.settings import reading_config
from pfl_audit.models.tensor_checks import require_shapes
from pfl_audit.models.weights import CONFIG, read_config, read_state

_DECODER = "cls.predictions.decoder.weight"
_DECODER_BIAS = "cls.predictions.decoder.bias"
# Poolers and the next-sentence head are part of many checkpoints and of none of our tasks; counters and tables that
# follow from the configuration are computed, not read.
_LEFT_OUT = re.compile(
    r"(.*\.)?pooler\..*|cls\.seq_relationship\..*|.*(position_ids|token_type_ids|inv_freq|num_batches_tracked)"
)


@dataclass(frozen=True)
class LoadedEncoder:
    """An opened checkpoint.

    Attributes:
        notes: Notes for the report, one sentence each.
    """

    network: FormEncoder
    tokenizer: FormTokenizer
    config: EncoderConfig
    notes: tuple[str, ...] = ()


def open_encoder(folder: Path, device: str = "cpu") -> LoadedEncoder:
    """Open a checkpoint folder. Nothing in it is run, and torch's global random generator is not advanced.

    Raises:
        AuditError: No checkpoint, no form encoder, or weights or a tokenizer that do not fit (they are named).
    """
    state = read_text_names(folder)
    config = config_from_dict(read_config(folder), frozenset(state), folder)
    tokenizer = FormTokenizer.open(folder)
    require_rows(folder, len(tokenizer.vocabulary), config.vocabulary)
    notes: list[str] = []
    _untie(state, config, notes)
    with torch.device("meta"):
        _fit(build(config, folder), state, folder)
    network = build(config, folder)
    if _DECODER in state:
        decoder = network.get_submodule("cls.predictions.decoder")
        decoder.weight = torch.nn.Parameter(torch.empty_like(state[_DECODER]))
    network.load_state_dict(state, strict=False)
    return LoadedEncoder(network.to(device).eval(), tokenizer, config, tuple(notes))


def save_encoder(
    loaded: LoadedEncoder, folder: Path, *, dtype: torch.dtype = torch.float32, extra: Mapping[str, Any] | None = None
) -> None:
    """Write a checkpoint that open_encoder opens, and for the heads that it knows transformers as well.

    Args:
        folder: Folder to write to. The weights are written last and atomically.
        dtype: Of the parameters in the file; statistics stay as they are.
        extra: Further JSON files to write, name to content.
    """
    loaded.tokenizer.save(folder)
    records = {CONFIG: loaded.config.to_dict(), **(extra or {})}
    statistics = dict(loaded.network.named_buffers())
    write_checkpoint(folder, records, own_tensors(loaded.network), dtype=dtype, statistics=statistics)


def own_tensors(network: FormEncoder) -> dict[str, Tensor]:
    """Tensors of the network by name, tied ones once, without computed ones."""
    state = {name: tensor for name, tensor in network.state_dict().items() if not _LEFT_OUT.fullmatch(name)}
    state.pop(_DECODER_BIAS, None)
    if _DECODER in state and state[_DECODER].data_ptr() == network.words.weight.data_ptr():
        del state[_DECODER]
    return state


def build(config: EncoderConfig, folder: Path) -> FormEncoder:
    """The network with new weights; torch's global random generator is not advanced.

    Raises:
        AuditError: The settings make none.
    """
    with reading_config(folder, KIND, REMEDY), torch.random.fork_rng(devices=[]):
        return FormEncoder(config)


def read_text_names(folder: Path) -> dict[str, Tensor]:
    """A checkpoint's tensors under today's names, without those that no task of ours uses.

    Raises:
        AuditError: They cannot be read, or one is no table of floats.
    """
    state = {
        name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): tensor
        for name, tensor in read_state(folder).items()
        if not _LEFT_OUT.fullmatch(name)
    }
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            raise AuditError(f"{folder}: the tensor {name[:120]} is of {tensor.dtype}", "Export the model again")
    return state


def _untie(state: dict[str, Tensor], config: EncoderConfig, notes: list[str]) -> None:
    """Leave the output layer of ``mlm`` only where it is a tensor of its own."""
    bias, decoder_bias = state.get("cls.predictions.bias"), state.pop(_DECODER_BIAS, None)
    if config.task == "mlm" and bias is None and decoder_bias is not None:
        state["cls.predictions.bias"] = decoder_bias
    if config.task != "mlm" or _DECODER not in state:
        return
    words = state.get(f"{config.backbone}.embeddings.word_embeddings.weight")
    if words is not None and torch.equal(words, state[_DECODER]):
        del state[_DECODER]
    else:
        notes.append("output layer: a tensor of its own, not the embedding's")


def _fit(network: FormEncoder, state: dict[str, Tensor], folder: Path) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    optional = [name for name in expected if name in (_DECODER, _DECODER_BIAS) or _LEFT_OUT.fullmatch(name)]
    require_shapes(expected, state, folder, optional=optional)

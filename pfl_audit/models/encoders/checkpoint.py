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
from pfl_audit.models.encoders.heads import mlm_head
from pfl_audit.models.encoders.network import FormEncoder
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.settings import reading_config
from pfl_audit.models.tensor_checks import require_shapes
from pfl_audit.models.weights import CONFIG, read_config, read_state

# Poolers and the next-sentence head are part of many checkpoints and of none of our tasks; counters and tables that
# follow from the configuration are computed, not read.
_LEFT_OUT = re.compile(
    r"(.*\.)?pooler\..*|cls\.seq_relationship\..*|.*(position_ids|token_type_ids|inv_freq|num_batches_tracked|visual_bbox)"
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
    name = f"{mlm_head(config.backbone)}.decoder"
    if f"{name}.weight" in state:
        network.get_submodule(name).weight = torch.nn.Parameter(torch.empty_like(state[f"{name}.weight"]))
    network.load_state_dict(state, strict=False)
    if config.visual is None and config.page_side is not None:
        _require_usual_pixels(folder, network)
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
    name = f"{mlm_head(network.config.backbone)}.decoder"
    decoder = state.get(f"{name}.weight")
    if decoder is not None and decoder.data_ptr() == network.words.weight.data_ptr():
        del state[f"{name}.weight"], state[f"{name}.bias"]
    elif decoder is not None:
        state[f"{name}.bias"] = state[f"{name}.bias"].clone()  # a file holds no tensor twice
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


def _require_usual_pixels(folder: Path, network: FormEncoder) -> None:
    """Refuse a LayoutLMv3 that takes other pixels than a page of its size from -1 to 1.

    Raises:
        AuditError: ``preprocessor_config.json`` says so.
    """
    from pfl_audit.models.layoutlm.config import QaConfig
    from pfl_audit.models.layoutlm.pixels import PixelSettings, pixel_settings

    config = network.backbone.config
    if pixel_settings(folder, QaConfig(3, config)) != PixelSettings((int(config.input_size),) * 2):
        raise AuditError(
            f"{folder}: preprocessor_config.json changes the page otherwise than LayoutLMv3's own",
            "Give a checkpoint with the mean 0.5, the standard deviation 0.5 and bilinear resizing",
        )


def _untie(state: dict[str, Tensor], config: EncoderConfig, notes: list[str]) -> None:
    """Leave the output layer of ``mlm`` only where it is a tensor of its own.

    Its bias is that of the head, or with ``tie_word_embeddings`` false that of the decoder, as in transformers.
    """
    head = mlm_head(config.backbone)
    decoder, bias = f"{head}.decoder.weight", f"{head}.bias"
    own_bias = state.pop(f"{head}.decoder.bias", None)
    if config.task != "mlm":
        return
    tied = config.text.get("tie_word_embeddings", True)
    if own_bias is not None and (bias not in state or not tied):
        state[bias] = own_bias
    words = state.get(f"{config.backbone}.embeddings.word_embeddings.weight")
    if decoder in state and words is not None and torch.equal(words, state[decoder]):
        if tied:
            del state[decoder]
    elif decoder in state:
        notes.append("output layer: a tensor of its own, not the embedding's")


def _fit(network: FormEncoder, state: dict[str, Tensor], folder: Path) -> None:
    head = mlm_head(network.config.backbone)
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    optional = [name for name in expected if name == f"{head}.decoder.bias" or _LEFT_OUT.fullmatch(name)]
    if network.config.text.get("tie_word_embeddings", True):
        optional.append(f"{head}.decoder.weight")
    require_shapes(expected, state, folder, optional=optional)

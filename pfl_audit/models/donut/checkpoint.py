"""Loads a Donut checkpoint folder as save_pretrained writes it. No code of the folder is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pfl_audit.models.checkpoint import require_rows
from pfl_audit.models.donut.config import DonutConfig, config_from_folder
from pfl_audit.models.donut.network import EMBEDDING, INDEX, LM_HEAD, build, derive
from pfl_audit.models.donut.pixels import PixelSettings, pixel_settings
from pfl_audit.models.donut.tokenizer import MARKS, DonutTokenizer
from pfl_audit.models.settings import reading_config
from pfl_audit.models.tensor_checks import require_shapes
from pfl_audit.models.weights import read_config, read_state


@dataclass(frozen=True)
class LoadedDonut:
    """An opened checkpoint.

    Attributes:
        network: transformers' own, in evaluation mode.
        pixels: How a page's image becomes pixels.
        notes: Notes for the report, one sentence each.
    """

    network: Any
    config: DonutConfig
    tokenizer: DonutTokenizer
    pixels: PixelSettings
    notes: tuple[str, ...] = ()


def load_donut(folder: Path, marks: Sequence[str] = MARKS) -> LoadedDonut:
    """Open a checkpoint folder.

    Args:
        marks: Special tokens that its tokenizer must have.

    Raises:
        AuditError: No checkpoint, not a Donut, a mark is missing, or the weights do not fit (the tensors are named).
    """
    config = config_from_folder(folder, read_config(folder))
    tokenizer = DonutTokenizer.open(folder, marks)
    require_rows(folder, tokenizer.size, int(config.decoder.vocab_size))
    pixels = pixel_settings(folder, config)
    with reading_config(folder, "a Donut"), torch.device("meta"):
        network = build(config)
    state = {name: tensor for name, tensor in read_state(folder).items() if not name.endswith(INDEX)}
    own_head = _resolve_head(state, tied=bool(config.decoder.tie_word_embeddings))
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items() if not name.endswith(INDEX)}
    require_shapes(shapes, state, folder, optional=() if own_head else (LM_HEAD,))
    network.load_state_dict(state, strict=False, assign=True)
    if not own_head:
        network.decoder.lm_head.weight = network.decoder.get_input_embeddings().weight
    derive(network)
    note = "output layer: a tensor of its own" if own_head else "output layer: tied to the embedding"
    return LoadedDonut(network.eval(), config, tokenizer, pixels, (note,))


def _resolve_head(state: dict[str, Tensor], *, tied: bool) -> bool:
    """Keep an output layer only if it is a tensor of its own; returns whether it is.

    Either copy of a tied tensor may be the one that was saved.
    """
    if not tied:
        return True
    if EMBEDDING not in state and LM_HEAD in state:
        state[EMBEDDING] = state[LM_HEAD]
    if LM_HEAD in state and EMBEDDING in state and torch.equal(state[LM_HEAD], state[EMBEDDING]):
        del state[LM_HEAD]
    return LM_HEAD in state

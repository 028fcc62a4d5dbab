"""Loads a LayoutLM checkpoint folder as save_pretrained writes it. No code of the folder is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LayoutLMForQuestionAnswering, LayoutLMv3ForQuestionAnswering

from pfl_audit.errors import AuditError
from pfl_audit.models.checkpoint import require_rows
from pfl_audit.models.layoutlm.config import SHORTEST_INPUT, QaConfig, config_from_folder
from pfl_audit.models.layoutlm.names import Version
from pfl_audit.models.layoutlm.pixels import PixelSettings, pixel_settings
from pfl_audit.models.layoutlm.tokenizer import WordTokenizer
from pfl_audit.models.settings import reading_config
from pfl_audit.models.tensor_checks import require_shapes
from pfl_audit.models.weights import read_config, read_state

_DERIVED = ("embeddings.position_ids", "visual_bbox")
"""Suffixes of tensors that older releases wrote and that are computed from the settings."""


@dataclass(frozen=True)
class LoadedQa:
    """An opened checkpoint.

    Attributes:
        network: transformers' own, in evaluation mode.
        pixels: How a page's image becomes pixels, or None if the model takes no image.
    """

    network: Any
    config: QaConfig
    tokenizer: WordTokenizer
    pixels: PixelSettings | None


def load_qa(folder: Path, version: Version) -> LoadedQa:
    """Open a checkpoint folder.

    Raises:
        AuditError: No checkpoint, not a LayoutLM with a question-answering head, or the weights do not fit
            (the tensors are named).
    """
    config = config_from_folder(folder, read_config(folder), version)
    tokenizer = WordTokenizer.open(folder)
    require_rows(folder, tokenizer.size, int(config.network.vocab_size))
    if tokenizer.longest is not None and tokenizer.longest < SHORTEST_INPUT:
        raise AuditError(
            f"{folder}: tokenizer_config.json allows only {tokenizer.longest} tokens at once",
            "Correct model_max_length, or delete it",
        )
    pixels = pixel_settings(folder, config) if config.sees else None
    kind = LayoutLMv3ForQuestionAnswering if version == 3 else LayoutLMForQuestionAnswering
    with reading_config(folder, "a LayoutLM"), torch.device("meta"):
        network = kind(config.network)
    state = {name: tensor for name, tensor in read_state(folder).items() if not name.endswith(_DERIVED)}
    require_shapes({name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}, state, folder)
    network.load_state_dict(state, assign=True)
    _derive(network, config)
    return LoadedQa(network.eval(), config, tokenizer, pixels)


def _derive(network: Any, config: QaConfig) -> None:
    """Compute the buffers that checkpoints do not hold."""
    backbone = network.base_model
    backbone.embeddings.position_ids = torch.arange(int(config.network.max_position_embeddings))[None]
    if hasattr(backbone, "visual_bbox"):
        backbone.visual_bbox = backbone.create_visual_bbox(image_size=(config.patches, config.patches))

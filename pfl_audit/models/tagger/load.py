"""Loads a token tagger by transformers' auto class, with the checks of ``auto.load``."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError
from pfl_audit.models.auto.examine import examine
from pfl_audit.models.auto.folder import check_folder, fingerprint
from pfl_audit.models.auto.load import open_network
from pfl_audit.models.auto.processor import open_config, open_tokenizer
from pfl_audit.models.layoutlm.config import QaConfig
from pfl_audit.models.layoutlm.pixels import PixelSettings, pixel_settings
from pfl_audit.models.tagger.inputs import TaggerInputs
from pfl_audit.models.tagger.kinds import KIND
from pfl_audit.models.tagger.labels import Labels, read_labels
from pfl_audit.models.weights import require_finite

_HIGHEST_BOX = 1000


@dataclass(frozen=True)
class LoadedTagger:
    """An opened checkpoint.

    Attributes:
        network: transformers' own, in evaluation mode, float32.
        pixels: How the page becomes pixels, or None if the network takes no image.
        files: File name to SHA-256.
    """

    network: Any
    labels: Labels
    inputs: TaggerInputs
    pixels: PixelSettings | None
    files: dict[str, str]


def load_tagger(folder: Path) -> LoadedTagger:
    """Open a checkpoint.

    Raises:
        AuditError: It cannot be opened safely, its labels are not usable, or the head has another number of outputs.
    """
    try:
        labels = read_labels(check_folder(folder))
    except ValueError as error:
        raise AuditError(f"{folder}: config.json cannot be used: {error}", "Compare it with the source") from error
    found = examine(folder)
    config = open_config(folder)
    tokenizer = open_tokenizer(folder)
    network = open_network(folder, KIND, config, found["attention"])
    if int(network.num_labels) != len(labels.names):
        raise AuditError(f"{folder}: config.json has {len(labels.names)} labels, and the head another number",
                         "Compare config.json with its source")  # fmt: skip
    require_finite(folder, network.named_parameters())
    takes = inspect.signature(network.forward).parameters
    rows = int(getattr(config, "max_2d_position_embeddings", _HIGHEST_BOX + 1))
    inputs = TaggerInputs(
        tokenizer,
        _positions(config),
        highest=min(_HIGHEST_BOX, rows - 1) if "bbox" in takes else 0,
        far=config.model_type == "layoutlm",
        types="token_type_ids" in takes,
    )
    sees = config.model_type == "layoutlmv3" and bool(config.visual_embed)
    pixels = pixel_settings(folder, QaConfig(3, config)) if sees else None
    return LoadedTagger(network.eval(), labels, inputs, pixels, fingerprint(folder))


def _positions(config: Any) -> int:
    """Tokens that have a position; RoBERTa and its kin number them from behind the padding token."""
    names = ("max_position_embeddings", "n_positions")
    sizes = [size for name in names if isinstance(size := getattr(config, name, None), int) and size > 0]
    behind = config.model_type in ("layoutlmv3", "lilt", "roberta", "xlm-roberta", "camembert")
    return min(sizes, default=1 << 30) - (int(config.pad_token_id or 0) + 1 if behind else 0)

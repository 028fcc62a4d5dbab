"""Settings of a LayoutLM: the values of ``config.json`` that determine its answers, each checked against bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformers import LayoutLMConfig, LayoutLMv3Config

from pfl_audit.models.layoutlm.names import Version
from pfl_audit.models.settings import LARGEST_SIZE, Check, positive, read, reading_config, switch, text, whole

SHORTEST_INPUT = 16
"""Smallest number of input tokens that leaves room for a question beside a page."""
_LONGEST_INPUT = 1 << 13
_MOST_PATCHES = 1 << 12


_SETTINGS: dict[str, Check] = {
    "vocab_size": (1, LARGEST_SIZE),
    "hidden_size": (1, LARGEST_SIZE),
    "num_hidden_layers": (1, 200),
    "num_attention_heads": (1, LARGEST_SIZE),
    "intermediate_size": (1, LARGEST_SIZE),
    "max_position_embeddings": (SHORTEST_INPUT, _LONGEST_INPUT),
    "max_2d_position_embeddings": (2, LARGEST_SIZE),
    "type_vocab_size": (1, LARGEST_SIZE),
    "pad_token_id": (0, LARGEST_SIZE),
    "layer_norm_eps": partial(positive, most=1),
    "hidden_act": text,
}
_SETTINGS_V3: dict[str, Check] = {
    "coordinate_size": (1, LARGEST_SIZE),
    "shape_size": (1, LARGEST_SIZE),
    "rel_pos_bins": (4, LARGEST_SIZE),
    "max_rel_pos": (1, LARGEST_SIZE),
    "rel_2d_pos_bins": (4, LARGEST_SIZE),
    "max_rel_2d_pos": (1, LARGEST_SIZE),
    "input_size": (1, 1 << 12),
    "num_channels": (3, 3),
    "patch_size": (1, 1 << 12),
    "has_relative_attention_bias": switch,
    "has_spatial_attention_bias": switch,
    "visual_embed": switch,
    "text_embed": switch,
}


@dataclass(frozen=True)
class QaConfig:
    """A LayoutLM that answers questions, of any size.

    Attributes:
        version: 1 or 3.
        network: Configuration of transformers. Only sizes, activation and switches of the network are taken from
            config.json.
    """

    version: Version
    network: Any

    @property
    def longest(self) -> int:
        """Text tokens that have a position. Version 3 numbers them from behind the padding token, as RoBERTa does."""
        positions = int(self.network.max_position_embeddings)
        return positions - int(self.network.pad_token_id) - 1 if self.version == 3 else positions

    @property
    def highest_box(self) -> int:
        """Largest row of the position tables that a box may name."""
        return min(1000, int(self.network.max_2d_position_embeddings) - 1)

    @property
    def sees(self) -> bool:
        """Whether it takes the page's image."""
        return self.version == 3 and bool(self.network.visual_embed)

    @property
    def patches(self) -> int:
        """Patches on a side of the page, or 0."""
        return int(self.network.input_size) // int(self.network.patch_size) if self.sees else 0

    @property
    def visual_tokens(self) -> int:
        """Patches of a page and the CLS token before them, or 0."""
        return self.patches**2 + 1 if self.sees else 0


def config_from_folder(folder: Path, config: Mapping[str, Any], version: Version) -> QaConfig:
    """Read a LayoutLM's settings.

    Args:
        config: ``config.json``. What it does not say, or says as null, is transformers' default.

    Raises:
        AuditError: A setting that is no setting of a LayoutLM.
    """
    with reading_config(folder, "a LayoutLM"):
        found = QaConfig(version, _network(config, version))
        _refuse_what_computes_nothing(found)
        return found


def _network(config: Mapping[str, Any], version: Version) -> Any:
    taken = read(config, _SETTINGS | _SETTINGS_V3 if version == 3 else _SETTINGS)
    return (LayoutLMv3Config if version == 3 else LayoutLMConfig)(**taken, num_labels=2)


def _refuse_what_computes_nothing(config: QaConfig) -> None:
    """Refuse settings that transformers accepts but that fail on the first question.

    Raises:
        ValueError: With the name of the setting.
    """
    network = config.network
    whole("pad_token_id", network.pad_token_id, 0, int(network.vocab_size) - 1)
    if config.version == 1:
        return
    whole("max_position_embeddings", network.max_position_embeddings, network.pad_token_id + 1 + SHORTEST_INPUT,
          _LONGEST_INPUT)  # fmt: skip
    if 4 * network.coordinate_size + 2 * network.shape_size != network.hidden_size:
        raise ValueError("hidden_size is not 4 times coordinate_size and 2 times shape_size")
    if not network.text_embed:
        raise ValueError("text_embed is false, and questions are text")
    # A distance within the exact buckets leaves the logarithm of a position without a value.
    whole("max_rel_pos", network.max_rel_pos, network.rel_pos_bins // 4 + 1, LARGEST_SIZE)
    whole("max_rel_2d_pos", network.max_rel_2d_pos, network.rel_2d_pos_bins // 4 + 1, LARGEST_SIZE)
    if config.sees:
        whole("patch_size", network.patch_size, 1, network.input_size)
        whole("the number of patches", config.patches**2, 1, _MOST_PATCHES)

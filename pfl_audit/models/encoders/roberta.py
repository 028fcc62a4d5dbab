"""Settings of the backbones with RoBERTa's vocabulary: RoBERTa, LiLT and LayoutLMv3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pfl_audit.models.encoders.kinds import Backbone, FormTask
from pfl_audit.models.settings import LARGEST_SIZE, Check, read, switch

TASKS: Final[Mapping[Backbone, tuple[FormTask, ...]]] = {
    "roberta": ("mlm", "ee-bio"), "lilt": ("ee-bio",), "layoutlmv3": ("ee-bio",),
}  # fmt: skip
"""Tasks for which transformers has a head."""
_PAD: Final[Mapping[Backbone, int]] = {"roberta": 1, "lilt": 0, "layoutlmv3": 1}
_SETTINGS: Final[Mapping[Backbone, Mapping[str, Check]]] = {
    "roberta": {},
    "lilt": {"channel_shrink_ratio": (1, LARGEST_SIZE)},
    "layoutlmv3": {
        "coordinate_size": (1, LARGEST_SIZE), "shape_size": (1, LARGEST_SIZE), "input_size": (1, 2048),
        "patch_size": (1, 2048), "num_channels": (3, 3), "rel_pos_bins": (4, LARGEST_SIZE),
        "max_rel_pos": (1, LARGEST_SIZE), "rel_2d_pos_bins": (4, LARGEST_SIZE), "max_rel_2d_pos": (1, LARGEST_SIZE),
        "has_relative_attention_bias": switch, "has_spatial_attention_bias": switch, "visual_embed": switch,
    },
}  # fmt: skip
MOST_PATCHES: Final = 1 << 12
"""Patches of a LayoutLMv3's page."""


def own_settings(backbone: Backbone, values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of ``config.json`` that BERT does not have.

    Raises:
        ValueError: One is out of bounds; the message names it.
    """
    return read(values, _SETTINGS.get(backbone, {}))


def first_position(backbone: Backbone, text: Mapping[str, Any]) -> int:
    """Row of the position table that the first token has; RoBERTa counts from behind the padding token."""
    return int(text.get("pad_token_id", _PAD[backbone])) + 1 if backbone in _PAD else 0


def page_side(backbone: Backbone, text: Mapping[str, Any]) -> int | None:
    """Pixels of a page that LayoutLMv3 takes, both ways; None for other backbones and where it takes none."""
    if backbone != "layoutlmv3" or not text.get("visual_embed", True):
        return None
    return int(text.get("input_size", 224))


def patch_side(text: Mapping[str, Any]) -> int:
    """Pixels of a patch of a LayoutLMv3's page, both ways."""
    return int(text.get("patch_size", 16))

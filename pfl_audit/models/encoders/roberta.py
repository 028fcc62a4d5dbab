"""Backbones with RoBERTa's vocabulary: RoBERTa, LiLT and LayoutLMv3. Their settings, networks and heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pfl_audit.models.encoders.kinds import Backbone, FormTask
from pfl_audit.models.settings import LARGEST_SIZE, Check, read, switch, whole

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pfl_audit.models.encoders.config import EncoderConfig

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
_MOST_PATCHES = 1 << 12
_PATCHES: Final = {"input_size": 224, "patch_size": 16}


def own_settings(backbone: Backbone, values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of ``config.json`` that BERT does not have.

    Raises:
        ValueError: One is out of bounds; the message names it.
    """
    return read(values, _SETTINGS.get(backbone, {}))


def first_position(backbone: Backbone, text: Mapping[str, Any]) -> int:
    """Row of the position table that the first token has; RoBERTa counts from behind the padding token."""
    return int(text.get("pad_token_id", _PAD[backbone])) + 1 if backbone in _PAD else 0


def page_side(config: EncoderConfig) -> int | None:
    """Pixels of a page that LayoutLMv3 takes, both ways; None for other backbones and where it takes none."""
    if config.backbone != "layoutlmv3" or not config.text.get("visual_embed", True):
        return None
    return int(config.text.get("input_size", _PATCHES["input_size"]))


def page_tokens(config: EncoderConfig) -> int:
    """Patches of a page, and the token before them, that LayoutLMv3 reads beside the text; 0 where it reads none."""
    side = page_side(config)
    return 0 if side is None else (side // int(config.text.get("patch_size", _PATCHES["patch_size"]))) ** 2 + 1


def refuse_sizes(config: EncoderConfig) -> None:
    """Refuse settings that make no network, or one that fails on the first form.

    Raises:
        ValueError: With the name of the setting.
    """
    if config.backbone not in TASKS:
        return
    if config.task not in TASKS[config.backbone]:
        raise ValueError(f"{config.backbone} has no head for {config.task}")
    if config.modality != "unimodal":
        raise ValueError(f"{config.backbone} is unimodal or sees the page itself, and modality is {config.modality}")
    own_settings(config.backbone, config.text)
    text = config.text
    if config.backbone == "lilt":
        narrow = config.hidden // text.get("channel_shrink_ratio", 4)
        if config.hidden % 6 or not narrow or narrow % config.heads:
            raise ValueError(f"hidden_size {config.hidden} does not fit the boxes of a LiLT of {config.heads} heads")
    if config.backbone == "layoutlmv3":
        if 4 * text.get("coordinate_size", 128) + 2 * text.get("shape_size", 128) != config.hidden:
            raise ValueError("hidden_size is not 4 times coordinate_size and 2 times shape_size")
        # A distance within the exact buckets leaves the logarithm of a position without a value.
        whole("max_rel_pos", text.get("max_rel_pos", 128), text.get("rel_pos_bins", 32) // 4 + 1)
        whole("max_rel_2d_pos", text.get("max_rel_2d_pos", 256), text.get("rel_2d_pos_bins", 64) // 4 + 1)
        if (side := page_side(config)) is not None:
            patch = whole("patch_size", text.get("patch_size", _PATCHES["patch_size"]), 1, side)
            whole("the number of patches", (side // patch) ** 2, 1, _MOST_PATCHES)


def backbone_of(backbone: Backbone, values: Mapping[str, Any]) -> Any:
    """Transformers' network with new weights, without a pooler.

    Args:
        values: Keys of transformers' configuration.
    """
    from transformers import (
        LayoutLMv3Config,
        LayoutLMv3Model,
        LiltConfig,
        LiltModel,
        RobertaConfig,
        RobertaModel,
    )

    if backbone == "roberta":
        return RobertaModel(RobertaConfig(**values), add_pooling_layer=False)
    if backbone == "lilt":
        return LiltModel(LiltConfig(**values), add_pooling_layer=False)
    return LayoutLMv3Model(LayoutLMv3Config(**values))


def classifier(config: EncoderConfig, text: Any) -> nn.Module:
    """The head of token classification: linear, or of a LayoutLMv3 of ten tags and more two layers."""
    from torch import nn
    from transformers.models.layoutlmv3.modeling_layoutlmv3 import LayoutLMv3ClassificationHead

    if config.backbone != "layoutlmv3" or len(config.tags) < 10:
        return nn.Linear(config.hidden, len(config.tags))
    text.num_labels = len(config.tags)
    head: nn.Module = LayoutLMv3ClassificationHead(text)
    return head


def hidden_states(backbone: Any, ids: Tensor, given: Mapping[str, Any]) -> Tensor:
    """States of the last layer at the tokens, (b, n, hidden); those of the page's patches behind them are left out.

    Args:
        given: ``attention_mask``, and of backbones that have them ``bbox`` and ``pixel_values``.
    """
    last: Tensor = backbone(input_ids=ids, **given).last_hidden_state
    return last[:, : ids.shape[1]]

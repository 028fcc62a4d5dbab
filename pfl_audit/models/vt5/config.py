"""Settings of a VT5: the released ``config.json``, and defaults for what it omits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from transformers import BeitConfig, T5Config

from pfl_audit.errors import AuditError
from pfl_audit.models.self_pretraining import MARKERS
from pfl_audit.models.settings import LARGEST_SIZE, reading_config, require_numbers, whole

_TEXT_KEYS = frozenset({
    "vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_decoder_layers", "num_heads", "dropout_rate",
    "relative_attention_num_buckets", "relative_attention_max_distance", "layer_norm_epsilon", "initializer_factor",
    "feed_forward_proj", "dense_act_fn", "is_gated_act", "scale_decoder_outputs", "tie_word_embeddings",
    "pad_token_id", "eos_token_id", "decoder_start_token_id", "is_encoder_decoder", "use_cache",
})  # fmt: skip
"""Keys taken from config.json; others are ignored."""
_VISUAL_KEYS = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "image_size", "patch_size",
    "num_channels", "layer_norm_eps", "layer_scale_init_value", "drop_path_rate", "hidden_act",
)  # fmt: skip
_NUMBERS = frozenset({
    "dropout_rate", "layer_norm_epsilon", "initializer_factor", "layer_norm_eps", "hidden_dropout_prob",
    "layer_scale_init_value", "drop_path_rate",
})  # fmt: skip
_TEXT_SIZES = ("vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_decoder_layers", "num_heads")
_VISUAL_SIZES = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "image_size", "patch_size",
)  # fmt: skip
KIND, REMEDY = "a VT5", "Compare it with the released file"
"""Of the error of settings that make no network."""
HIGHEST_BOX = 1000
"""Largest row of the position tables that an input looks up."""
_MOST_LAYERS = 1000
_LONGEST_ANSWER = 4096


class BoxScale(StrEnum):
    """Conversion of boxes from shares of the page to rows of the position tables.

    The reference code writes the shares themselves into integers, so that every box of the released
    checkpoints became 0 (or 1 at the very edge) and layout carried no signal.
    """

    REFERENCE = "reference"
    """Truncate the shares to integers, as the released weights have always seen it."""
    THOUSANDTHS = "thousandths"
    """Multiply by 1,000 first, as LayoutLM does. New models are trained so."""


@dataclass(frozen=True)
class Vt5Config:
    """A VT5 of any size.

    Attributes:
        box_scale: ``vt5_box_scale`` in config.json; ``reference`` where the file does not say.
        max_input_tokens: Text tokens with the end-of-sequence token.
        max_answer_tokens: Longest answer in decoder steps, the start token included. transformers'
            default of 20 holds for the released weights.
        max_2d_position_embeddings: Rows of each position table.
        markers: Number of the first token of self-pretraining (``vt5_markers`` in config.json), or None without these.
    """

    text: T5Config
    visual: BeitConfig
    box_scale: BoxScale = BoxScale.THOUSANDTHS
    max_input_tokens: int = 512
    max_answer_tokens: int = 20
    max_2d_position_embeddings: int = 1024
    spatial_layer_norm_eps: float = 1e-12
    spatial_dropout: float = 0.1
    markers: int | None = None

    def __post_init__(self) -> None:
        """Set the start token of answers to T5's padding token if config.json omits it."""
        if getattr(self.text, "decoder_start_token_id", None) is None:
            self.text.decoder_start_token_id = self.text.pad_token_id

    @property
    def visual_tokens(self) -> int:
        """Patches of a page and the CLS token."""
        return (int(self.visual.image_size) // int(self.visual.patch_size)) ** 2 + 1

    def to_dict(self) -> dict[str, Any]:
        """As ``config.json`` has it: T5's own keys at the top, as in the released file."""
        values = self.text.to_diff_dict()
        values.pop("transformers_version", None)
        return {
            **values,
            "model_type": "t5",
            "architectures": ["HF_VT5"],
            "max_2d_position_embeddings": self.max_2d_position_embeddings,
            "layer_norm_eps": self.spatial_layer_norm_eps,
            "hidden_dropout_prob": self.spatial_dropout,
            "vt5_visual": {key: getattr(self.visual, key) for key in _VISUAL_KEYS},
            "vt5_box_scale": str(self.box_scale),
            "vt5_max_input_tokens": self.max_input_tokens,
            **({} if self.markers is None else {"vt5_markers": self.markers}),
        }


def config_from_folder(
    folder: Path, config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], generation: Any
) -> Vt5Config:
    """Read a VT5's settings.

    Args:
        shapes: Tensor name (as released) to shape; the DiT's size is read off them, since the
            released file does not carry it.
        generation: ``generation_config.json``, or empty.

    Raises:
        AuditError: A setting that is no setting of a VT5.
    """
    longest_answer = _longest_answer(folder, generation)
    with reading_config(folder, KIND, REMEDY):
        require_numbers(config, _NUMBERS)
        text = T5Config(**{key: value for key, value in config.items() if key in _TEXT_KEYS})
        visual = _visual(config, shapes)
        scale = BoxScale(config.get("vt5_box_scale", BoxScale.REFERENCE))
        _refuse_sizes(text, visual)
        return Vt5Config(
            text=text,
            visual=visual,
            box_scale=scale,
            max_input_tokens=whole("vt5_max_input_tokens", config.get("vt5_max_input_tokens", 512), least=2),
            max_answer_tokens=longest_answer,
            max_2d_position_embeddings=whole(
                "max_2d_position_embeddings", config.get("max_2d_position_embeddings", 1024), least=HIGHEST_BOX + 1
            ),
            spatial_layer_norm_eps=float(config.get("layer_norm_eps", 1e-12)),
            spatial_dropout=float(config.get("hidden_dropout_prob", 0.1)),
            markers=_markers(config.get("vt5_markers"), int(text.vocab_size)),
        )


def _refuse_sizes(text: T5Config, visual: BeitConfig) -> None:
    """Refuse sizes that make no network, or one that no input fits.

    Raises:
        ValueError: With the name of the setting.
    """
    _require_sizes({name: getattr(text, name) for name in _TEXT_SIZES})
    for name in ("pad_token_id", "decoder_start_token_id"):
        if (token := getattr(text, name, None)) is not None:
            whole(name, token, least=0, most=int(text.vocab_size) - 1)
    # Fewer buckets, or a distance within them, leave the logarithm of a position without a value.
    buckets = whole("relative_attention_num_buckets", text.relative_attention_num_buckets, least=4)
    whole("relative_attention_max_distance", text.relative_attention_max_distance, least=buckets // 2 + 1)
    whole("vt5_visual.num_channels", visual.num_channels, least=3, most=3)
    whole("vt5_visual.patch_size", visual.patch_size, most=int(visual.image_size))


def _require_sizes(sizes: Mapping[str, Any], where: str = "") -> None:
    for name, size in sizes.items():
        whole(where + name, size, most=_MOST_LAYERS if "layers" in name else LARGEST_SIZE)


def _markers(first: Any, rows: int) -> int | None:
    return None if first is None else whole("vt5_markers", first, most=rows - len(MARKERS))


def _longest_answer(folder: Path, generation: Any) -> int:
    try:
        if not isinstance(generation, Mapping):
            raise TypeError("it is not a JSON object")
        return whole("max_length", generation.get("max_length") or 20, least=2, most=_LONGEST_ANSWER)
    except (TypeError, ValueError) as error:
        raise AuditError(
            f"{folder / 'generation_config.json'} cannot be used: {error}", "Correct it, or delete it"
        ) from error


def _visual(config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> BeitConfig:
    declared = config.get("vt5_visual")
    if declared is not None:
        if not isinstance(declared, Mapping):
            raise TypeError("vt5_visual is not a JSON object")
        require_numbers(declared, _NUMBERS, "vt5_visual.")
        return _sized({key: value for key, value in declared.items() if key in _VISUAL_KEYS})
    # Everything but the heads is known from the shapes; DiT-base and DiT-large both have heads of 64.
    prefix = "visual_embedding.image_model."
    width, channels, patch, _ = shapes[prefix + "embeddings.patch_embeddings.projection.weight"]
    positions = shapes[prefix + "embeddings.position_embeddings"][1]
    layers = {name.split(".")[4] for name in shapes if name.startswith(prefix + "encoder.layer.")}
    settings = {
        "hidden_size": width,
        "num_hidden_layers": len(layers),
        "num_attention_heads": max(width // 64, 1),
        "intermediate_size": shapes[prefix + "encoder.layer.0.intermediate.dense.weight"][0],
        "image_size": int((positions - 1) ** 0.5) * patch,
        "patch_size": patch,
        "num_channels": channels,
        "layer_norm_eps": 1e-12,
    }
    return _sized(settings)


def _sized(settings: Mapping[str, Any]) -> BeitConfig:
    """A DiT's settings, refused before BEiT lists as many layers as they say."""
    _require_sizes({name: settings[name] for name in _VISUAL_SIZES if name in settings}, "vt5_visual.")
    return visual_config(**settings)


def visual_config(**settings: Any) -> BeitConfig:
    """A DiT's settings: absolute positions, mean pooling, no mask token, no relative bias."""
    fixed = {
        "use_mask_token": False,
        "use_absolute_position_embeddings": True,
        "use_relative_position_bias": False,
        "use_shared_relative_position_bias": False,
        "use_mean_pooling": True,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    return BeitConfig(**{**settings, **fixed})

"""Settings of a Donut: the values of ``config.json`` that determine its answers, each checked against bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformers import DonutSwinConfig, MBartConfig

from pfl_audit.models.donut.names import DECODER_TYPE, ENCODER_TYPE, MODEL_TYPE
from pfl_audit.models.settings import LARGEST_SIZE, Check, positive, read, reading_config, switch, text, whole

SHORTEST = 16
"""Smallest number of decoder positions that leaves room for a question and an answer."""
LARGEST_SIDE = 1 << 12
"""Largest side of a page in pixels."""
_MOST_PATCHES = 1 << 20
_MOST_LAYERS = 200
_MOST_STAGES = 8
_WIDEST_MLP = 64


def _page(name: str, value: Any) -> list[int]:
    sides = [value, value] if isinstance(value, int) else _list(name, value)
    if len(sides) != 2:
        raise ValueError(f"{name} is not a height and a width")
    return [whole(name, side, 1, LARGEST_SIDE) for side in sides]


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= _MOST_STAGES:
        raise ValueError(f"{name} is not a list of 1 to {_MOST_STAGES} numbers")
    return list(value)


def _each(name: str, value: Any, *, most: int) -> list[int]:
    return [whole(name, one, 1, most) for one in _list(name, value)]


_ENCODER: dict[str, Check] = {
    "patch_size": (1, 1 << 8),
    "num_channels": (3, 3),
    "embed_dim": (1, 1 << 14),
    "window_size": (1, 1 << 5),
    "image_size": _page,
    "depths": partial(_each, most=_MOST_LAYERS),
    "num_heads": partial(_each, most=LARGEST_SIZE),
    "mlp_ratio": partial(positive, most=_WIDEST_MLP),
    "qkv_bias": switch,
    "hidden_act": text,
    "layer_norm_eps": partial(positive, most=1),
    "use_absolute_embeddings": switch,
}
_DECODER: dict[str, Check] = {
    "vocab_size": (1, LARGEST_SIZE),
    "d_model": (1, LARGEST_SIZE),
    "decoder_layers": (1, _MOST_LAYERS),
    "decoder_attention_heads": (1, LARGEST_SIZE),
    "decoder_ffn_dim": (1, LARGEST_SIZE),
    "max_position_embeddings": (SHORTEST, 1 << 13),
    "pad_token_id": (0, LARGEST_SIZE),
    "activation_function": text,
    "scale_embedding": switch,
    "tie_word_embeddings": switch,
}
_NO_DROPOUT = {
    "encoder": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "drop_path_rate": 0.0},
    "decoder": {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "decoder_layerdrop": 0.0},
}


@dataclass(frozen=True)
class DonutConfig:
    """A Donut of any size.

    Attributes:
        encoder: Configuration of the Swin encoder.
        decoder: Configuration of the MBart decoder. Dropout is 0 in both, so that nothing depends on the mode.
    """

    encoder: DonutSwinConfig
    decoder: MBartConfig

    @property
    def longest(self) -> int:
        """Largest number of tokens of prompt and answer together."""
        return int(self.decoder.max_position_embeddings)

    @property
    def page(self) -> tuple[int, int]:
        """Height and width of a page in pixels, as config.json has it; preprocessor_config.json has precedence."""
        size = self.encoder.image_size
        height, width = (size, size) if isinstance(size, int) else size
        return int(height), int(width)

    def visual_tokens(self, page: tuple[int, int]) -> int:
        """Number of visual tokens of a page of this height and width."""
        height, width = self.grids(page)[-1]
        return height * width

    def grids(self, page: tuple[int, int]) -> list[tuple[int, int]]:
        """Rows and columns of the page's patches at every stage; each stage halves them, rounded up."""
        patch = int(self.encoder.patch_size)
        grids = [(-(-page[0] // patch), -(-page[1] // patch))]
        for _ in self.encoder.depths[1:]:
            grids.append((-(-grids[-1][0] // 2), -(-grids[-1][1] // 2)))
        return grids

    def require_page(self, page: tuple[int, int]) -> None:
        """Check that the network can take pages of this height and width.

        Raises:
            ValueError: They are too large, or smaller than a window of the attention at some stage.
        """
        height, width = (whole("the page's side", side, 1, LARGEST_SIDE) for side in page)
        grids, window = self.grids(page), int(self.encoder.window_size)
        whole("the number of patches", grids[0][0] * grids[0][1], 1, _MOST_PATCHES)
        if min(grids[-1]) < window:
            raise ValueError(
                f"a page of {width} x {height} pixels is {grids[-1][1]} x {grids[-1][0]} patches at the last stage, "
                f"less than a window of {window}"
            )

    def to_dict(self) -> dict[str, Any]:
        """As ``config.json``, which transformers opens as well."""
        return {
            "model_type": MODEL_TYPE,
            "architectures": ["VisionEncoderDecoderModel"],
            "is_encoder_decoder": True,
            "tie_word_embeddings": False,
            "pad_token_id": int(self.decoder.pad_token_id),
            "encoder": {
                "model_type": ENCODER_TYPE,
                **{name: getattr(self.encoder, name) for name in _ENCODER},
                **_NO_DROPOUT["encoder"],
            },
            "decoder": {
                "model_type": DECODER_TYPE,
                "is_decoder": True,
                "add_cross_attention": True,
                **{name: getattr(self.decoder, name) for name in (*_DECODER, "bos_token_id", "eos_token_id")},
                **_NO_DROPOUT["decoder"],
            },
        }


def config_from_folder(folder: Path, config: Mapping[str, Any]) -> DonutConfig:
    """Read a Donut's settings.

    Args:
        config: ``config.json``. What it does not say, or says as null, is transformers' default; whatever it says
            beyond the sizes, activations and switches of the network is left out.

    Raises:
        AuditError: A setting that is no setting of a Donut.
    """
    with reading_config(folder, "a Donut"):
        return DonutConfig(_encoder(_part(config, "encoder", _ENCODER)), _decoder(_part(config, "decoder", _DECODER)))


def _part(config: Mapping[str, Any], name: str, checks: Mapping[str, Check]) -> dict[str, Any]:
    part = config.get(name)
    if not isinstance(part, Mapping):
        raise ValueError(f"{name} is not a JSON object")
    return read(part, checks)


def _encoder(taken: dict[str, Any]) -> DonutSwinConfig:
    if taken.get("use_absolute_embeddings"):
        raise ValueError("use_absolute_embeddings is true, which no Donut can compute")
    config = DonutSwinConfig(**taken, **_NO_DROPOUT["encoder"])
    if len(config.depths) != len(config.num_heads):
        raise ValueError("depths and num_heads are not of the same length")
    whole("the number of layers", sum(config.depths), 1, _MOST_LAYERS)
    return config


def _decoder(taken: dict[str, Any]) -> MBartConfig:
    # Nothing is built of an encoder, but a cache counts its layers.
    taken["encoder_layers"] = taken.get("decoder_layers", 12)
    config = MBartConfig(**taken, **_NO_DROPOUT["decoder"], is_decoder=True, add_cross_attention=True)
    whole("pad_token_id", config.pad_token_id, 0, int(config.vocab_size) - 1)
    return config

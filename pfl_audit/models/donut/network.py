"""The network: classes of transformers, built from checked settings."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import VisionEncoderDecoderConfig, VisionEncoderDecoderModel

from pfl_audit.models.donut.config import DonutConfig

EMBEDDING = "decoder.model.decoder.embed_tokens.weight"
LM_HEAD = "decoder.lm_head.weight"
INDEX = "relative_position_index"
"""Suffix of buffers that are computed from the size of the window."""


def build(config: DonutConfig) -> Any:
    """A Donut with new weights: a VisionEncoderDecoderModel of DonutSwin and MBart.

    Attention is always computed step by step ("eager"): torch's fused attention has no second derivative,
    and gradient inversion needs it.

    Raises:
        Exception: Of many kinds, where the settings make no network.
    """
    parts = {"encoder": config.encoder.to_dict(), "decoder": config.decoder.to_dict()}
    joint = VisionEncoderDecoderConfig(**parts, pad_token_id=config.decoder.pad_token_id)
    joint._attn_implementation = "eager"
    return VisionEncoderDecoderModel(joint)


def page_features(network: Any, pixels: Tensor) -> Tensor:
    """Encoder features of pages, as the decoder takes them.

    Args:
        pixels: float (pages, 3, height, width).

    Returns:
        float (pages, visual tokens, d_model).
    """
    features: Tensor = network.encoder(pixel_values=pixels).last_hidden_state
    if hasattr(network, "enc_to_dec_proj"):
        features = network.enc_to_dec_proj(features)
    return features


def derive(network: Any) -> None:
    """Compute the buffers that checkpoints need not hold."""
    for module in network.modules():
        if hasattr(module, INDEX):
            module.relative_position_index = module.create_relative_position_index()


def own_tensors(network: Any) -> dict[str, Tensor]:
    """Tensors of the network by name, tied ones once, without computed ones."""
    state: dict[str, Tensor] = {
        name: tensor for name, tensor in network.state_dict().items() if not name.endswith(INDEX)
    }
    if state[LM_HEAD].data_ptr() == state[EMBEDDING].data_ptr():
        del state[LM_HEAD]
    return state

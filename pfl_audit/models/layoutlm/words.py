"""A LayoutLM's embeddings as a WordEncoder.

For the token at position t, before LayerNorm and dropout (transformers, modeling_layoutlm and modeling_layoutlmv3):

    version 1   e_t = W[token] + P[t] + T[type] + X[left] + Y[top] + X[right] + Y[bottom] + H[height] + W'[width]
    version 3   e_t = W[token] + P[t + pad + 1] + T[type] + (X[left] | Y[top] | X[right] | Y[bottom] | H | W')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pfl_audit.models.layoutlm.config import QaConfig
from pfl_audit.models.layoutlm.pixels import PixelSettings
from pfl_audit.models.layoutlm.tokenizer import Frame, WordTokenizer
from pfl_audit.models.samples import Text
from pfl_audit.models.word_encoder import EmbeddingLayout, EncoderInputs, Norm, PatchStates, SpanHead, Table, TableName

_NAMES: Mapping[TableName, str] = {
    "word": "embeddings.word_embeddings.weight",
    "position": "embeddings.position_embeddings.weight",
    "types": "embeddings.token_type_embeddings.weight",
    "x": "embeddings.x_position_embeddings.weight",
    "y": "embeddings.y_position_embeddings.weight",
    "h": "embeddings.h_position_embeddings.weight",
    "w": "embeddings.w_position_embeddings.weight",
    "patches": "pos_embed",
    "projection": "patch_embed.proj.weight",
    "bias": "patch_embed.proj.bias",
}
_WHOLE = slice(None)
_HIGHEST_BOX = 1000
_EPSILON = 1e-6
"""Of the LayerNorm of patches (transformers, modeling_layoutlmv3)."""


class LayoutLmWords:
    """The text side of a LayoutLM.

    Args:
        network: LayoutLM or LayoutLMv3 for question answering.
        pixels: How the page becomes pixels, or None if the model takes no image.
    """

    def __init__(self, network: Any, config: QaConfig, tokenizer: WordTokenizer, pixels: PixelSettings | None) -> None:
        self._tokenizer = tokenizer
        self.layout = embedding_layout(config.network, pixels)
        head = getattr(network.qa_outputs, "out_proj", network.qa_outputs)
        self.head = SpanHead(next(name for name, own in network.named_parameters() if own is head.weight), head)
        self.first = encoder_inputs(config.network, tokenizer.frame, sees=pixels is not None)

    def continuations(self) -> Tensor:
        """Tokens that continue a word, bool (vocabulary,)."""
        return torch.tensor(self._tokenizer.goes_on(self.layout.tables["word"].shape[0]))

    def tokens(self, text: Text) -> Tensor:
        """``input_ids`` of a sample, int64 (n,)."""
        return text["input_ids"]

    def boxes(self, text: Text) -> Tensor:
        """``bbox`` of a sample, int64 (n, 4)."""
        return text["bbox"]

    def text(self, tokens: Tensor, boxes: Tensor, types: Tensor, answer: tuple[int, int] = (0, 0)) -> Text:
        """The sample that has these tokens."""
        return {
            "input_ids": torch.where(tokens < 0, self._tokenizer.unknown, tokens),
            "bbox": boxes.clamp(0, _HIGHEST_BOX),
            "token_type_ids": types.clamp(min=0),
            "attention_mask": torch.ones_like(tokens),
            "start_positions": torch.tensor(answer[0]),
            "end_positions": torch.tensor(answer[1]),
        }

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens, special ones by their names."""
        return self._tokenizer.decode(ids)


def embedding_layout(network: Any, pixels: PixelSettings | None = None) -> EmbeddingLayout:
    """The embedding sum of a LayoutLM or LayoutLMv3.

    Args:
        network: transformers' configuration.
        pixels: How the page becomes pixels; the configuration's size with transformers' values if None. Without effect
            on a model that takes no image.
    """
    width, pad = int(network.hidden_size), int(network.pad_token_id or 0)
    shapes: dict[TableName, tuple[int, ...]] = {
        "word": (int(network.vocab_size), width),
        "position": (int(network.max_position_embeddings), width),
        "types": (int(network.type_vocab_size), width),
    }
    coordinates, third = int(network.max_2d_position_embeddings), network.model_type == "layoutlmv3"
    edge, size = (int(network.coordinate_size), int(network.shape_size)) if third else (width, width)
    shapes |= {"x": (coordinates, edge), "y": (coordinates, edge), "h": (coordinates, size), "w": (coordinates, size)}
    sees = third and bool(network.visual_embed)
    if sees:
        side = int(network.patch_size)
        shapes["patches"] = (1, (int(network.input_size) // side) ** 2 + 1, width)
        shapes["projection"] = (width, int(network.num_channels), side, side)
        shapes["bias"] = (width,)
        pixels = pixels or PixelSettings((int(network.input_size),) * 2)
    return EmbeddingLayout(
        width=width,
        pad=pad,
        first=pad + 1 if third else 0,
        padding_shows=not third,
        tables={name: Table(_NAMES[name], shape) for name, shape in shapes.items()},
        slices=_slices(edge, size) if third else dict.fromkeys("xy", (_WHOLE, _WHOLE)) | dict.fromkeys("hw", (_WHOLE,)),
        pixels=pixels if sees else None,
    )


def encoder_inputs(network: Any, frame: Frame, *, sees: bool) -> EncoderInputs:
    """What is between the embedding sum and the first layer; version 3 with an image normalises a second time."""
    model, epsilon = str(network.model_type), float(network.layer_norm_eps)
    norms = [f"{model}.embeddings.LayerNorm", *([f"{model}.LayerNorm"] if sees else [])]
    layer = f"{model}.encoder.layer.0"
    own = [Norm(f"{name}.weight", f"{name}.bias", epsilon) for name in norms]
    first = Norm(f"{model}.norm.weight", f"{model}.norm.bias", _EPSILON)
    return EncoderInputs(
        norms=tuple(own),
        patches=PatchStates(f"{model}.cls_token", (first, own[-1])) if sees else None,
        attention=tuple(f"{layer}.attention.self.{part}.weight" for part in ("query", "key", "value")),
        feed=f"{layer}.intermediate.dense.weight",
        start=frame.before[0],
        end=frame.after[-1],
    )


def _slices(edge: int, size: int) -> dict[str, tuple[slice, ...]]:
    """Where version 3 puts its coordinates: the four edges, then height and width."""
    left, top, right, bottom = (slice(at * edge, (at + 1) * edge) for at in range(4))
    height, width = (slice(4 * edge + at * size, 4 * edge + (at + 1) * size) for at in range(2))
    return {"x": (left, right), "y": (top, bottom), "h": (height,), "w": (width,)}

"""Donut's decoder as a TextDecoder: its tokens, and its weights up to the first self-attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pfl_audit.models.donut.inputs import Example
from pfl_audit.models.donut.network import EMBEDDING, LM_HEAD
from pfl_audit.models.donut.tokenizer import ANSWER, END_ANSWER, EOS, MARKS, UNK, DonutTokenizer
from pfl_audit.models.samples import IGNORED, Text
from pfl_audit.models.text_decoder import FirstLayer, Norm, TextParameters

PARAMETERS = TextParameters(
    word=EMBEDDING,
    position="decoder.model.decoder.embed_positions.weight",
    attention=tuple(f"decoder.model.decoder.layers.0.self_attn.{kind}_proj.weight" for kind in "qkv"),
    output=LM_HEAD,
)


class DonutText:
    """The text side of a Donut.

    Args:
        network: VisionEncoderDecoderModel of DonutSwin and MBart.
    """

    def __init__(self, network: Any, tokenizer: DonutTokenizer) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self.vocabulary = tokenizer.size
        self.markers = frozenset(tokenizer.id(name) for name in (*MARKS, EOS))

        self.end = tokenizer.id(END_ANSWER)

    def first_layer(self) -> FirstLayer:
        """The current weights up to the first self-attention."""
        return first_layer(self._network)

    def ids(self, text: Text) -> Tensor:
        """``decoder_input_ids`` of a sample, int64 (tokens,)."""
        return text["decoder_input_ids"]

    def text(self, ids: Sequence[int]) -> Text:
        """The sample that has these tokens; an unknown one (-1) becomes the unknown piece."""
        return self.example(ids).tensors()

    def example(self, ids: Sequence[int]) -> Example:
        """Ids with their labels: what follows ``<s_answer>``, or everything if there is none, and ``</s>`` last."""
        known = tuple(token if token >= 0 else self._tokenizer.id(UNK) for token in ids)
        labels = (*known[1:], self._tokenizer.id(EOS)) if known else ()
        asked = (self.answer_at(known) or 1) - 1
        return Example(known, (*[IGNORED] * asked, *labels[asked:]))

    def answer_at(self, ids: Sequence[int]) -> int | None:
        """Index of the token after ``<s_answer>``, or None if there is none."""
        mark = self._tokenizer.id(ANSWER)
        return list(ids).index(mark) + 1 if mark in ids else None

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens without special ones."""
        return self._tokenizer.decode(ids)


def first_layer(network: Any) -> FirstLayer:
    """The weights of a Donut's decoder up to its first self-attention (transformers, modeling_mbart).

    Args:
        network: VisionEncoderDecoderModel of DonutSwin and MBart.
    """
    inner = network.decoder.model.decoder
    words, places = inner.embed_tokens, inner.embed_positions
    return FirstLayer(
        embedding=_plain(words.weight),
        positions=_plain(places.weight),
        behind=_norm(inner.layernorm_embedding),
        before=_norm(inner.layers[0].self_attn_layer_norm),
        scale=float(words.embed_scale),
        offset=int(places.offset),
        pad=int(words.padding_idx),
        tied=network.decoder.lm_head.weight is words.weight,
        parameters=PARAMETERS,
    )


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu()


def _norm(module: torch.nn.LayerNorm) -> Norm:
    return _plain(module.weight).double(), _plain(module.bias).double(), float(module.eps)

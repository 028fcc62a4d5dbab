"""Small models with random weights, and clients that compute a gradient on a drawn invoice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from pfl_audit.documents.synthetic.invoice import draw_invoice
from pfl_audit.documents.synthetic.providers import draw_providers
from pfl_audit.documents.synthetic.render import render_invoice
from pfl_audit.models.encoders import bros
from pfl_audit.models.layoutlm import words
from pfl_audit.models.layoutlm.pixels import PixelSettings
from pfl_audit.models.word_encoder import EmbeddingLayout

VOCABULARY = 2000
LONGEST = 300
SIDE = 112
SETTINGS = PixelSettings((SIDE, SIDE))
GOES_ON = (torch.arange(VOCABULARY) % 2 == 0) & (torch.arange(VOCABULARY) > 5)
PAD = {"v1": 0, "v3": 1, "bros": 1}


@dataclass(frozen=True)
class Sample:
    """One page with a question about it, as a model takes it: tensors of a batch of one."""

    inputs: dict[str, Tensor]
    page: Tensor

    @property
    def tokens(self) -> Tensor:
        return self.inputs["input_ids"][0]

    @property
    def boxes(self) -> Tensor:
        return self.inputs["bbox"][0]


def network_of(kind: str, seed: int = 0, **changes: Any) -> Any:
    """A model of two layers: ``v3``, ``v1`` or ``bros``; in training, as a client's is."""
    from transformers import (
        BrosConfig,
        BrosForTokenClassification,
        LayoutLMConfig,
        LayoutLMForQuestionAnswering,
        LayoutLMv3Config,
        LayoutLMv3ForQuestionAnswering,
    )

    torch.manual_seed(seed)
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "max_position_embeddings": LONGEST + 2,
        "pad_token_id": PAD[kind],
    }
    if kind == "v1":
        return LayoutLMForQuestionAnswering(LayoutLMConfig(**sizes | changes)).train()
    if kind == "bros":
        return BrosForTokenClassification(BrosConfig(**sizes | changes)).train()
    sizes |= {"coordinate_size": 28, "shape_size": 8, "input_size": SIDE}
    return LayoutLMv3ForQuestionAnswering(LayoutLMv3Config(**sizes | changes)).train()


def sample(kind: str, seed: int, *, words: int | None = None, padding: int = 0, side: int = SIDE) -> Sample:
    """An invoice in pieces of four letters, behind a question; the first question's box is empty."""
    rng = np.random.default_rng(seed)
    canvas = render_invoice(draw_invoice(draw_providers(1, rng)[0], rng))
    boxes = (np.asarray(canvas.boxes()) * 1000).astype(np.int64).clip(0, 1000)
    ids, places = [3, *map(_piece, ("what", "is", "the", "total", "?")), 4], [[0] * 4] * 7
    question = len(ids)
    for word, box in list(zip(canvas.words, boxes.tolist(), strict=True))[:words]:
        pieces = [word[at : at + 4] for at in range(0, len(word), 4)]
        ids += [_piece(piece, goes_on=number > 0) for number, piece in enumerate(pieces)]
        places += [box] * len(pieces)
    ids, places = [*ids[: LONGEST - 1], 4], [*places[: LONGEST - 1], [1000] * 4 if kind == "v1" else [0] * 4]
    length = len(ids)
    inputs: dict[str, Tensor] = {
        "input_ids": torch.tensor([ids + [PAD[kind]] * padding]),
        "bbox": torch.tensor([places + [[0] * 4] * padding]),
        "attention_mask": torch.tensor([[1] * length + [0] * padding]),
    }
    page = torch.from_numpy(np.array(canvas.page.convert("RGB").resize((side, side)))).permute(2, 0, 1).float() / 255
    if kind == "bros":
        inputs["bbox"] = inputs["bbox"] / 1000
        inputs["labels"] = torch.from_numpy(rng.integers(0, 2, size=(1, length + padding)))
        return Sample(inputs, page)
    inputs |= {"start_positions": torch.tensor([length // 2]), "end_positions": torch.tensor([length // 2 + 1])}
    if kind == "v1":
        types = torch.zeros_like(inputs["input_ids"])
        types[:, question:length] = 1
        inputs["token_type_ids"] = types
    else:
        inputs["pixel_values"] = (page[None] - 0.5) / 0.5
    return Sample(inputs, page)


def layout_of(network: Any, settings: PixelSettings = SETTINGS) -> EmbeddingLayout:
    """The embedding sum of a model of any of these kinds."""
    if network.config.model_type == "bros":
        return bros.embedding_layout(network.config)
    return words.embedding_layout(network.config, settings)


def together(*samples: Sample) -> dict[str, Tensor]:
    """A batch; all samples must have the same length."""
    return {name: torch.cat([each.inputs[name] for each in samples]) for name in samples[0].inputs}


def noisy(gradient: Mapping[str, Tensor], sigma: float, seed: int = 0) -> dict[str, Tensor]:
    """With Gaussian noise on every entry, as a client adds for local differential privacy."""
    generator = torch.Generator().manual_seed(seed)
    return {name: each + sigma * torch.randn(each.shape, generator=generator) for name, each in gradient.items()}


def psnr(page: Tensor, truth: Tensor) -> float:
    """Peak signal-to-noise ratio in dB, of pages in 0..1."""
    return -10 * float((page.double() - truth.double()).square().mean().clamp_min(1e-20).log10())


def _piece(text: str, *, goes_on: bool = False) -> int:
    """A token of chance for a piece of a word: an odd one begins a word, an even one goes on with it."""
    return 5 + 2 * (crc32(text.encode()) % ((VOCABULARY - 6) // 2)) + goes_on

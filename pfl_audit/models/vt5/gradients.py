"""VT5 as a GradientModel: the loss that its training takes, as a function of the page's pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from pfl_audit.documents.document import Boxes, Document, Query
from pfl_audit.documents.images import Box
from pfl_audit.files import sha256_json
from pfl_audit.models.samples import Sample, Text, mean_losses
from pfl_audit.models.self_pretraining import MARKERS
from pfl_audit.models.vt5.config import BoxScale
from pfl_audit.models.vt5.inputs import PROMPT, PROMPT_BOX, InputBuilder, box_indices, collate, collate_labels
from pfl_audit.models.vt5.inputs import Text as Encoded
from pfl_audit.models.vt5.model import Vt5Model
from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.models.vt5.tokenizer import EOS, PAD, Tokenizer
from pfl_audit.models.word_encoder import Table
from pfl_audit.models.word_tables import FirstAttention, PageInput, SummedInputs

GRADIENT_VERSION = 1
"""Incremented whenever the loss below changes."""


class Vt5Gradients(Vt5Model):
    """A VT5 checkpoint whose training gradient can be taken, its DiT included.

    The text of a sample is ``ids`` (int64, (tokens,)), ``boxes`` and ``places`` (int64, (tokens, 4)), and ``labels``
    (int64, (answer tokens,)). The loss is the mean cross-entropy of a sample's own label tokens, then the mean over the
    samples: a batch's gradient is the mean of its samples'.
    """

    reads = True
    sees_page = True
    fusion: tuple[str, ...] | None = ("spatial_embedding.", "visual_embedding.")
    patch_embedding = "visual_embedding.image_model.embeddings.patch_embeddings.projection.weight"

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        super().__init__(folder, device)
        self.network.visual_embedding.image_model.set_attn_implementation("eager")  # has second derivatives
        self.network.requires_grad_(True)
        self.fingerprint = sha256_json(["gradients", GRADIENT_VERSION, self.fingerprint])
        side = int(self.network.config.visual.image_size)
        self.page = (side, side)
        self._places = InputBuilder(replace(self.network.config, box_scale=BoxScale.THOUSANDTHS), self.inputs.tokenizer)

    def text_decoder(self) -> None:
        """None: the question is part of the encoder's input."""

    def word_encoder(self) -> None:
        """None: a T5 has no absolute positions."""

    def word_tables(self) -> Vt5Tables:
        """The table of tokens, which is tied to the output, and those of coordinates."""
        return Vt5Tables(self.network, self.inputs.tokenizer)

    def see(self, page: Image.Image) -> NDArray[np.uint8]:
        """Scale a page to the network's size, without regard to its proportions: uint8 (*page, 3)."""
        rows, columns = self.page
        return np.asarray(page.convert("RGB").resize((columns, rows), Image.Resampling.BILINEAR))

    def place(self, box: Box, size: tuple[int, int]) -> Box:
        """The box itself, since pages are scaled without regard to their proportions."""
        return box

    def text(self, sample: Sample) -> Text:
        """Prompt, words and end, with the labels."""
        query = Query("", Document("", "", sample.words, sample.boxes), sample.question, (sample.answer,))
        encoded, placed = self.inputs.text(query), self._places.text(query)
        return {
            "ids": torch.from_numpy(encoded.ids),
            "boxes": torch.from_numpy(encoded.boxes),
            "places": torch.from_numpy(placed.boxes),
            "labels": self.inputs.answer(sample.answer),
        }

    def loss(self, pixels: Tensor, texts: Sequence[Text]) -> Tensor:
        """The training loss: pixels float (samples, 3, *page), 0 to 1; float ()."""
        features = self.network.visual_embedding.encode(pixels * 2 - 1)
        rows = collate([Encoded(text["ids"].numpy(), text["boxes"].numpy()) for text in texts])
        embeddings, mask = self.network.embed(rows.to(str(pixels.device)), features)
        labels = collate_labels([text["labels"] for text in texts]).to(pixels.device)
        logits = self.network.language_backbone(inputs_embeds=embeddings, attention_mask=mask, labels=labels).logits
        return mean_losses(logits, labels)[0].mean()


class _Scale(NamedTuple):
    """A PixelScale."""

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]


class Vt5Tables:
    """The tables of a VT5, as WordTables."""

    def __init__(self, network: Vt5, tokenizer: Tokenizer) -> None:
        backbone, spatial = network.language_backbone, network.spatial_embedding
        self.word = Table("shared.weight", tuple(backbone.shared.weight.shape))
        self.edges = {
            "x": Table("x_position_embeddings.weight", tuple(spatial.x_position_embeddings.weight.shape)),
            "y": Table("y_position_embeddings.weight", tuple(spatial.y_position_embeddings.weight.shape)),
        }
        first = network.config.markers
        added = () if first is None else range(first, first + len(MARKERS))
        self.always = frozenset({PAD, EOS, *added})
        self.tied = backbone.lm_head.weight is backbone.shared.weight
        self._network, self._tokenizer = network, tokenizer
        self._epsilon = float(spatial.LayerNorm.eps)
        self._config = network.config

    def tokens(self, text: Text) -> Tensor:
        """``ids`` of a sample."""
        return text["ids"]

    def boxes(self, text: Text) -> Tensor:
        """``boxes`` of a sample."""
        return text["boxes"]

    def places(self, text: Text) -> Tensor:
        """``places`` of a sample."""
        return text["places"]

    def answer(self, text: Text) -> Tensor:
        """``labels`` of a sample, without the end."""
        return text["labels"][:-1]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens."""
        return self._tokenizer.decode(list(ids))

    def summed(self) -> SummedInputs:
        """Inputs of the first encoder layer."""
        first = "encoder.block.0.layer.0"
        prompts = [set(self._tokenizer.encode(PROMPT.format(question))) for question in ("a", "who")]
        prompt = torch.tensor(sorted(set.intersection(*prompts)))[:, None]
        rows = torch.cat([prompt, torch.tensor(PROMPT_BOX).expand(len(prompt), 4)], dim=1)
        return SummedInputs(
            word=self.word.name,
            across=self.edges["x"].name,
            down=self.edges["y"].name,
            gain="spatial_embedding.LayerNorm.weight",
            shift="spatial_embedding.LayerNorm.bias",
            epsilon=self._epsilon,
            matcher="spatial_emb_matcher.layers.0.weight",
            offset="spatial_emb_matcher.layers.0.bias",
            norm=f"{first}.layer_norm.weight",
            attention=tuple(f"{first}.SelfAttention.{name}.weight" for name in "qkv"),
            patches="visual_emb_matcher.layers.0.weight",
            patches_offset="visual_emb_matcher.layers.0.bias",
            pairs=torch.cat([rows, torch.tensor([[EOS, 0, 0, 0, 0]])]),
            dropout=max(self._config.spatial_dropout, float(self._config.text.dropout_rate)),
        )

    def layer(self) -> FirstAttention:
        """The first encoder layer."""
        feed = ("wi_0", "wi_1") if self._config.text.is_gated_act else ("wi",)
        text, first = self._config.text, "encoder.block.0.layer"
        attention = f"{first}.0.SelfAttention"
        return FirstAttention(
            norm=f"{first}.0.layer_norm.weight",
            query=f"{attention}.q.weight",
            key=f"{attention}.k.weight",
            value=f"{attention}.v.weight",
            out=f"{attention}.o.weight",
            second=f"{first}.1.layer_norm.weight",
            feed=tuple(f"{first}.1.DenseReluDense.{name}.weight" for name in feed),
            epsilon=float(text.layer_norm_epsilon),
            heads=int(text.num_heads),
        )

    def page(self) -> PageInput:
        """The DiT's patch projection."""
        embeddings = "image_model.embeddings"
        projection = f"{embeddings}.patch_embeddings.projection"
        scale = _Scale((int(self._config.visual.image_size),) * 2, (0.5,) * 3, (0.5,) * 3)
        return PageInput(f"{embeddings}.position_embeddings", f"{projection}.weight", f"{projection}.bias", scale)

    def patches(self, page: Tensor) -> Tensor:
        """What the DiT and its projection make of a page, (patches + 1, width), on the page's device."""
        visual = self._network.visual_embedding
        with torch.no_grad():
            found: Tensor = visual(visual.encode(page[None].to(next(visual.parameters()).device) * 2 - 1))[0]
        return found.to(page.device)

    def bias(self, length: int) -> Tensor:
        """T5's bias by relative position, (heads, length, length)."""
        attention: Any = self._network.language_backbone.encoder.block[0].layer[0].SelfAttention
        with torch.no_grad():
            found: Tensor = attention.compute_bias(length, length)[0]
        return found

    def frame(self) -> tuple[list[int], list[int]]:
        """Pieces of the prompt around the question, which begins a word."""
        before, after = (list(self._tokenizer.encode(part)) for part in PROMPT.split("{}"))
        return before, after

    def starts_word(self, token: int) -> bool:
        """Whether a piece begins a word."""
        return self._tokenizer.starts_word(token)

    def pieces(self, word: str) -> list[int]:
        """Tokens of a word of the page, which is lower-cased."""
        return list(self._tokenizer.encode(word.lower()))

    def rows(self, boxes: Boxes) -> NDArray[np.int64]:
        """Rows of the tables of coordinates, as the inputs of a page have them."""
        return box_indices(boxes, self._config)

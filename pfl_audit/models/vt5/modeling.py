"""The network: T5 over words with boxes and a page's patches (privacy-aware-docvqa, section 4.2, figure 8)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import BeitModel, T5ForConditionalGeneration

from pfl_audit.models.vt5.config import Vt5Config


@dataclass(frozen=True)
class TextBatch:
    """Encoded prompts and words.

    Attributes:
        ids: int64 (batch, text), padded on the right.
        boxes: int64 (batch, text, 4), rows of the position tables.
        lengths: int64 (batch,), tokens that are not padding.
    """

    ids: Tensor
    boxes: Tensor
    lengths: Tensor

    def to(self, device: str) -> TextBatch:
        """The same on another device."""
        return TextBatch(self.ids.to(device), self.boxes.to(device), self.lengths.to(device))


class Projection(nn.Module):
    """One linear layer, in the place where the reference has a perceptron of one layer."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(inputs, outputs)])

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., inputs) to (..., outputs)."""
        return self.layers[0](x)


class SpatialEmbedding(nn.Module):
    """Two position tables, shared by left and right and by top and bottom."""

    def __init__(self, config: Vt5Config) -> None:
        super().__init__()
        width = int(config.text.d_model)
        self.x_position_embeddings = nn.Embedding(config.max_2d_position_embeddings, width)
        self.y_position_embeddings = nn.Embedding(config.max_2d_position_embeddings, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.spatial_layer_norm_eps)
        self.dropout = nn.Dropout(config.spatial_dropout)
        self.spatial_emb_matcher = Projection(width, width)

    def positions(self, boxes: Tensor) -> Tensor:
        """The normalised sum of four positions, before dropout: int64 (..., 4) to float (..., width)."""
        left, top, right, bottom = boxes.unbind(-1)
        total = self.x_position_embeddings(left) + self.y_position_embeddings(top)
        total = total + self.x_position_embeddings(right) + self.y_position_embeddings(bottom)
        return self.LayerNorm(total)

    def forward(self, boxes: Tensor) -> Tensor:
        """Map int64 (batch, text, 4) to float (batch, text, width)."""
        return self.spatial_emb_matcher(self.dropout(self.positions(boxes)))


class VisualEmbedding(nn.Module):
    """DiT over the page, and a projection to the width of the T5."""

    def __init__(self, config: Vt5Config) -> None:
        super().__init__()
        self.image_model = BeitModel(config.visual)
        self.visual_emb_matcher = Projection(int(config.visual.hidden_size), int(config.text.d_model))

    def encode(self, pixels: Tensor) -> Tensor:
        """Map pixels (pages, channels, height, width) to DiT features (pages, patches + 1, DiT width)."""
        return self.image_model(pixel_values=pixels).last_hidden_state

    def forward(self, features: Tensor) -> Tensor:
        """Map DiT features to (pages, patches + 1, width)."""
        return self.visual_emb_matcher(features)


class Vt5(nn.Module):
    """The whole network. Its children carry the names of the released checkpoints."""

    def __init__(self, config: Vt5Config) -> None:
        super().__init__()
        self.config = config
        self.language_backbone = T5ForConditionalGeneration(config.text)
        # T5 adds a bias to the scores, which leaves torch's fused attention its slowest path.
        self.language_backbone.set_attn_implementation("eager")
        self.spatial_embedding = SpatialEmbedding(config)
        self.visual_embedding = VisualEmbedding(config)

    def embed(self, text: TextBatch, features: Tensor, *, pads_before_page: bool = False) -> tuple[Tensor, Tensor]:
        """Put the parts of the encoder's input together: text, page, padding.

        The reference pads a batch between text and page, which moves the page away from the text
        and makes an answer depend on what else is in the batch; alone, a query has no padding. By
        default the padding comes last here, so that every query gets what it gets alone.

        Args:
            text: Prompts and words.
            features: DiT features, float (batch, patches + 1, DiT width).
            pads_before_page: As the reference does it in a batch.

        Returns:
            Embeddings, float (batch, tokens, width), and the attention mask, int64 (batch, tokens).
        """
        words = self.language_backbone.shared(text.ids) + self.spatial_embedding(text.boxes)
        page = self.visual_embedding(features)
        longest, patches = words.shape[1], page.shape[1]
        positions = torch.arange(longest + patches, device=words.device)[None, :]
        lengths = text.lengths[:, None].to(words.device)
        if pads_before_page:
            mask = (positions < lengths) | (positions >= longest)
            return torch.cat([words, page], dim=1), mask.to(torch.int64)
        inputs = torch.cat([words * (positions[:, :longest] < lengths)[..., None], torch.zeros_like(page)], dim=1)
        where = (lengths + positions[:, :patches])[..., None].expand(-1, -1, words.shape[2])
        page = page.to(inputs.dtype)  # in low precision a layer's output has fewer digits than a sum with embeddings
        return inputs.scatter(1, where, page), (positions < lengths + patches).to(torch.int64)

"""BROS for many rows with the same boxes, such as the candidates for one field: their geometry is computed once."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import BrosConfig, BrosModel
from transformers.models.bros.modeling_bros import BrosSelfAttention

from pfl_audit.models.word_encoder import EmbeddingLayout, Table


class SharedGeometry(BrosSelfAttention):  # type: ignore[misc]
    """BROS's attention, which also takes the relative positions of one row for all rows (BROS, section 3.2).

    transformers holds a vector for every pair of tokens of every row, and multiplies row by row.
    """

    def forward(
        self, hidden_states: Tensor, bbox_pos_emb: Tensor, attention_mask: Tensor | None = None, **given: Any
    ) -> tuple[Tensor, Tensor]:
        """States (b, n, hidden) and positions (n, n, b or 1, d) to states, and the attention probabilities."""
        rows, tokens, hidden = hidden_states.shape
        if rows == 1 or bbox_pos_emb.shape[2] == rows:
            return super().forward(hidden_states, bbox_pos_emb, attention_mask, **given)
        heads = (rows, tokens, self.num_attention_heads, self.attention_head_size)
        query, key, value = (
            project(hidden_states).view(heads).transpose(1, 2) for project in (self.query, self.key, self.value)
        )
        # One product for everything at a place: (n, b * heads, d) x (n, d, n).
        at_place = query.permute(2, 0, 1, 3).flatten(1, 2) @ bbox_pos_emb[:, :, 0].transpose(1, 2)
        relative = at_place.view(tokens, rows, self.num_attention_heads, tokens).permute(1, 2, 0, 3)
        scores = (query @ key.transpose(-1, -2) + relative) / self.attention_head_size**0.5
        if attention_mask is not None:
            scores = scores + attention_mask
        probabilities = self.dropout(scores.softmax(dim=-1))
        context = (probabilities @ value).transpose(1, 2).reshape(rows, tokens, hidden)
        return context, probabilities


def bros(config: BrosConfig) -> nn.Module:
    """Transformers' BROS without the pooler; it may be given the boxes of one row, (1, n, 4), for all."""
    network: nn.Module = BrosModel(config, add_pooling_layer=False)
    for layer in network.get_submodule("encoder.layer").children():
        before = layer.get_submodule("attention.self")
        shared = SharedGeometry(config)
        shared.query, shared.key, shared.value = before.query, before.key, before.value
        layer.get_submodule("attention").add_module("self", shared)
    return network


def embedding_layout(config: BrosConfig) -> EmbeddingLayout:
    """BROS's embedding sum, e_t = W[token] + P[t] + T[type]; boxes enter by the attention (modeling_bros)."""
    width = int(config.hidden_size)
    return EmbeddingLayout(
        width=width,
        pad=int(config.pad_token_id or 0),
        first=0,
        padding_shows=True,
        tables={
            "word": Table("embeddings.word_embeddings.weight", (int(config.vocab_size), width)),
            "position": Table("embeddings.position_embeddings.weight", (int(config.max_position_embeddings), width)),
            "types": Table("embeddings.token_type_embeddings.weight", (int(config.type_vocab_size), width)),
        },
    )

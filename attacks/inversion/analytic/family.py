"""How the models of the LayoutLM family add up their embeddings.

For the token at position t, before LayerNorm and dropout:

    LayoutLM     e_t = W[token] + P[t] + T[type] + X[left] + Y[top] + X[right] + Y[bottom] + H[height] + W'[width]
    LayoutLMv3   e_t = W[token] + P[t + pad + 1] + T[type] + (X[left] | Y[top] | X[right] | Y[bottom] | H | W')
    BROS         e_t = W[token] + P[t] + T[type]

Every table that takes part gets the same error signal s_t = dL/de_t in the row that was looked up, or a slice of
it where the parts stand side by side. LayerNorm and dropout come after the sum, so they change s_t and hide
nothing. Read off transformers' modeling_layoutlm, modeling_layoutlmv3 and modeling_bros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pfl_audit.errors import AuditError

WHOLE = slice(None)


@dataclass(frozen=True)
class Family:
    """Where a model's tables stand and what they get.

    Attributes:
        name: transformers' model type.
        width: Of the embeddings.
        pad: Padding token; its row of the word table gets no gradient.
        first: Row of the position table that the first token looks up.
        padding_shows: Whether padding tokens have positions of their own (LayoutLMv3's share the row of the
            padding token, which gets no gradient).
        slices: For x and y the parts of a signal that the table gets for the first and the second edge, and for
            h and w the one part; empty where there are no such tables.
        sees: Whether the model takes the page's image by patches with absolute positions.
    """

    name: str
    width: int
    pad: int
    first: int
    padding_shows: bool
    slices: Mapping[str, tuple[slice, ...]] = field(default_factory=dict)
    sees: bool = False


def family_of(config: Any) -> Family:
    """Tell the family by a model's configuration.

    Args:
        config: transformers' own of the model.

    Raises:
        AuditError: Not a LayoutLM, LayoutLMv3 or BROS, or sizes that contradict each other.
    """
    name, width = str(getattr(config, "model_type", "")), int(getattr(config, "hidden_size", 0))
    pad = int(getattr(config, "pad_token_id", None) or 0)
    if name == "bros":
        return Family(name, width, pad, 0, True)
    if name == "layoutlm":
        edges = dict.fromkeys("xy", (WHOLE, WHOLE)) | dict.fromkeys("hw", (WHOLE,))
        return Family(name, width, pad, 0, True, edges)
    if name == "layoutlmv3":
        edge, size = int(config.coordinate_size), int(config.shape_size)
        if 4 * edge + 2 * size != width:
            raise AuditError(
                f"hidden_size {width} is not 4 times coordinate_size {edge} and 2 times shape_size {size}",
                "Take the config.json that the model was trained with",
            )
        left, top, right, bottom = (slice(at * edge, (at + 1) * edge) for at in range(4))
        height, breadth = slice(4 * edge, 4 * edge + size), slice(4 * edge + size, width)
        parts = {"x": (left, right), "y": (top, bottom), "h": (height,), "w": (breadth,)}
        return Family(name, width, pad, pad + 1, False, parts, bool(config.visual_embed))
    raise AuditError(
        f"the closed form needs learned absolute positions in one sum with the words, and '{name}' is not known to",
        "Take a LayoutLM, LayoutLMv3 or BROS, or another method",
    )

"""Names of tensors in released files and in the present version of transformers.

The released files follow transformers 4 (``encoder.layer.0.attention.attention.query``); its BEiT
has other names since transformers 5.
"""

from __future__ import annotations

import re
from typing import Final

EMBEDDING: Final = "language_backbone.shared.weight"
ALIASES: Final = ("language_backbone.encoder.embed_tokens.weight", "language_backbone.decoder.embed_tokens.weight")
"""Further copies of the embedding; the reference keeps the last one that it loads."""
LM_HEAD: Final = "language_backbone.lm_head.weight"
"""May be a further copy, or a tensor of its own: the reference unties it by accident."""

_BEIT: Final = (
    (r"\.encoder\.layer\.", ".layers."),
    (r"\.attention\.attention\.query\.", ".attention.q_proj."),
    (r"\.attention\.attention\.key\.", ".attention.k_proj."),
    (r"\.attention\.attention\.value\.", ".attention.v_proj."),
    (r"\.attention\.output\.dense\.", ".attention.o_proj."),
    (r"\.intermediate\.dense\.", ".mlp.fc1."),
    (r"(\.layers\.\d+)\.output\.dense\.", r"\1.mlp.fc2."),
)
_BEIT_BACK: Final = (
    (r"\.layers\.(?=\d+\.(?:lambda|attention|layernorm|mlp))", ".encoder.layer."),
    (r"\.attention\.q_proj\.", ".attention.attention.query."),
    (r"\.attention\.k_proj\.", ".attention.attention.key."),
    (r"\.attention\.v_proj\.", ".attention.attention.value."),
    (r"\.attention\.o_proj\.", ".attention.output.dense."),
    (r"\.mlp\.fc1\.", ".intermediate.dense."),
    (r"\.mlp\.fc2\.", ".output.dense."),
)
_DIT = "visual_embedding.image_model."


def to_internal(name: str) -> str:
    """The name that the network has for a tensor of a released file."""
    return _rename(name, _BEIT)


def to_released(name: str) -> str:
    """The name that a released file has for a tensor of the network."""
    return _rename(name, _BEIT_BACK)


def _rename(name: str, rules: tuple[tuple[str, str], ...]) -> str:
    if name.startswith(_DIT):
        for pattern, replacement in rules:
            name = re.sub(pattern, replacement, name)
    return name

"""Names of tensors in released files and in the present version of transformers.

The released files follow transformers 4 (``encoder.layer.0.attention.attention.query``); its BEiT
has other names since transformers 5.
"""

from __future__ import annotations

from typing import Final

EMBEDDING: Final = "language_backbone.shared.weight"
ALIASES: Final = ("language_backbone.encoder.embed_tokens.weight", "language_backbone.decoder.embed_tokens.weight")
"""Further copies of the embedding; the reference keeps the last one that it loads."""
LM_HEAD: Final = "language_backbone.lm_head.weight"
"""May be a further copy, or a tensor of its own: the reference unties it by accident."""

_BEIT: Final = (
    (".encoder.layer.", ".layers."),
    (".attention.attention.query.", ".attention.q_proj."),
    (".attention.attention.key.", ".attention.k_proj."),
    (".attention.attention.value.", ".attention.v_proj."),
    (".attention.output.dense.", ".attention.o_proj."),
    (".intermediate.dense.", ".mlp.fc1."),
    (".output.dense.", ".mlp.fc2."),
)
"""Parts of released names and of the network's; one after the other, and back in the reverse order."""
_DIT = "visual_embedding.image_model."


def to_internal(name: str) -> str:
    """The name that the network has for a tensor of a released file."""
    if name.startswith(_DIT):
        for released, internal in _BEIT:
            name = name.replace(released, internal)
    return name


def to_released(name: str) -> str:
    """The name that a released file has for a tensor of the network."""
    if name.startswith(_DIT):
        for released, internal in reversed(_BEIT):
            name = name.replace(internal, released)
    return name

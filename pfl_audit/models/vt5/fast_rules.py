"""A ``tokenizer.json`` without what its file puts around a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pfl_audit.models.sentencepiece_file import UnfitTokenizerError, require_pieces

_MOST_ADDED = 10_000


def without_frames(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same without truncation, padding and special tokens around a text, which are ours to add.

    Raises:
        UnfitTokenizerError: It has too many pieces, or one that is too long.
    """
    added = content.get("added_tokens") or []
    model = content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    if not isinstance(added, list) or not isinstance(vocabulary, list | dict):
        raise UnfitTokenizerError("it has no vocabulary")
    names = [piece[0] if isinstance(piece, list) and piece else piece for piece in vocabulary]
    names += [token.get("content") if isinstance(token, Mapping) else None for token in added]
    require_pieces(names)
    if len(added) > _MOST_ADDED:
        raise UnfitTokenizerError("it has too many added tokens")
    return {**content, "truncation": None, "padding": None, "post_processor": None}

"""T5's tokenizer: SentencePiece as in the reference, or a ``tokenizer.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfl_audit.inputs import read_json
from pfl_audit.models.confined_pieces import Pieces
from pfl_audit.models.sentencepiece_file import (
    LARGEST_TOKENIZER,
    UnfitTokenizerError,
    read_sentencepiece,
)
from pfl_audit.models.tokenizer_files import find_unigrams, reading_tokenizer

PAD, EOS, UNK = 0, 1, 2
"""T5's special tokens; everything that reads a VT5 relies on these numbers."""

_MOST_ADDED = 10_000
# What transformers 4 did to decoded text before it was scored.
_CLEAN_UP = ((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
             (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"))  # fmt: skip


class Tokenizer:
    """Text to T5 pieces and back.

    Special tokens are never read out of a document's text: a word ``</s>`` is a word.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces

    @classmethod
    def open(cls, folder: Path) -> Tokenizer:
        """Open a folder's tokenizer: ``spiece.model`` before ``tokenizer.json``.

        Raises:
            AuditError: Neither is there, or it is damaged or not T5's.
        """
        file = find_unigrams(folder, "Copy spiece.model or tokenizer.json beside the weights")
        with reading_tokenizer(folder, "Copy it again from its source", file):
            return cls(_sentencepieces(file) if file.suffix == ".model" else _fast(file))

    @property
    def size(self) -> int:
        """Number of pieces that it can give out."""
        return self._pieces.size

    def starts_word(self, token: int) -> bool:
        """Whether a piece begins a word: twice in a row it makes two; the mark of a beginning alone is blank."""
        if not UNK < token < self.size:
            return False
        return " " in self._pieces.decode([token, token]) or not self._pieces.decode([token])

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of a text."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Ids of texts, each of which is cut once, in one call."""
        different = list(dict.fromkeys(texts))
        ids = dict(zip(different, self._pieces.encode(different), strict=True))
        return [ids[text] for text in texts]

    def decode(self, ids: list[int]) -> str:
        """Text of an answer: special tokens and unknown numbers left out, cleaned up as the reference does."""
        text = self._pieces.decode([token for token in ids if UNK < token < self.size])
        for spaced, tight in _CLEAN_UP:
            text = text.replace(spaced, tight)
        return text


def _sentencepieces(path: Path) -> Pieces:
    pieces = Pieces("sentencepiece", read_sentencepiece(path), str(path))
    if pieces.special != (PAD, EOS, UNK):
        raise UnfitTokenizerError("it has not T5's special tokens")
    return pieces


def _fast(path: Path) -> Pieces:
    content = read_json(path, limit=LARGEST_TOKENIZER)
    if not isinstance(content, dict):
        raise UnfitTokenizerError("it is not a JSON object")
    pieces = Pieces("file", json.dumps(without_frames(content)), str(path))
    if pieces.special != ("<pad>", "</s>", "<unk>"):
        raise UnfitTokenizerError("it has not T5's special tokens")
    return pieces


def without_frames(content: Mapping[str, Any]) -> dict[str, Any]:
    """A ``tokenizer.json`` without truncation, padding and special tokens around a text, which are ours to add.

    Raises:
        UnfitTokenizerError: It has too many added tokens.
    """
    if len(content.get("added_tokens") or ()) > _MOST_ADDED:
        raise UnfitTokenizerError("it has too many added tokens")
    return {**content, "truncation": None, "padding": None, "post_processor": None}

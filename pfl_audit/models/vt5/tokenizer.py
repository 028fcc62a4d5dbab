"""T5's tokenizer: SentencePiece as in the reference, or a ``tokenizer.json``."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_there, read_json
from pfl_audit.models.sentencepiece_file import LARGEST_TOKENIZER, UnfitTokenizerError, read_sentencepiece
from pfl_audit.models.vt5.fast_child import ConfinedPieces
from pfl_audit.models.vt5.fast_rules import runs_here, without_frames

PAD, EOS, UNK = 0, 1, 2
"""T5's special tokens; everything that reads a VT5 relies on these numbers."""

# What transformers 4 did to decoded text before it was scored.
_CLEAN_UP = ((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
             (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"))  # fmt: skip


class _Pieces(Protocol):
    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: list[int]) -> str: ...

    @property
    def size(self) -> int: ...


class Tokenizer:
    """Text to T5 pieces and back.

    Special tokens are never read out of a document's text: a word ``</s>`` is a word.
    """

    def __init__(self, pieces: _Pieces) -> None:
        self._pieces = pieces
        self.encode = lru_cache(maxsize=1 << 16)(self._encode)

    @classmethod
    def open(cls, folder: Path) -> Tokenizer:
        """Open a folder's tokenizer: ``spiece.model`` before ``tokenizer.json``.

        Raises:
            AuditError: Neither is there, or it is damaged or not T5's.
        """
        remedy = "Copy it again from its source"
        file = next((path for name in ("spiece.model", "tokenizer.json") if is_there(path := folder / name)), None)
        if file is None:
            raise AuditError(f"{folder} has no tokenizer", "Copy spiece.model or tokenizer.json beside the weights")
        try:
            return cls(_SentencePiece(read_sentencepiece(file)) if file.suffix == ".model" else _fast(file))
        except AuditError:
            raise
        except UnfitTokenizerError as error:
            raise AuditError(f"the tokenizer of {folder} cannot be used: {file.name}: {error}", remedy) from error
        except Exception as error:  # the tokenizers library raises bare exceptions
            raise AuditError(f"the tokenizer of {folder} cannot be used: {file.name} is damaged", remedy) from error

    @property
    def size(self) -> int:
        """Number of pieces that it can give out."""
        return self._pieces.size

    def starts_word(self, token: int) -> bool:
        """Whether a piece begins a word: twice in a row it makes two; the mark of a beginning alone is blank."""
        if not UNK < token < self.size:
            return False
        return " " in self._pieces.decode([token, token]) or not self._pieces.decode([token])

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._pieces.encode(text))

    def decode(self, ids: list[int]) -> str:
        """Text of an answer: special tokens and unknown numbers left out, cleaned up as the reference does."""
        text = self._pieces.decode([token for token in ids if UNK < token < self.size])
        for spaced, tight in _CLEAN_UP:
            text = text.replace(spaced, tight)
        return text


class _SentencePiece:
    def __init__(self, content: bytes) -> None:
        from sentencepiece import SentencePieceProcessor

        self._model = SentencePieceProcessor()
        self._model.LoadFromSerializedProto(content)
        if (self._model.pad_id(), self._model.eos_id(), self._model.unk_id()) != (PAD, EOS, UNK):
            raise ValueError("not T5's special tokens")

    @property
    def size(self) -> int:
        return int(self._model.GetPieceSize())

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._model.EncodeAsIds(text)
        return ids

    def decode(self, ids: list[int]) -> str:
        text: str = self._model.DecodeIds(ids)
        return text


def _fast(path: Path) -> _Pieces:
    content = read_json(path, limit=LARGEST_TOKENIZER)
    if not isinstance(content, dict):
        raise UnfitTokenizerError("it is not a JSON object")
    text = json.dumps(without_frames(content))
    pieces: _Fast | ConfinedPieces = _Fast(text) if runs_here(content) else ConfinedPieces(text, str(path))
    if [pieces.name(token) for token in (PAD, EOS, UNK)] != ["<pad>", "</s>", "<unk>"]:
        raise UnfitTokenizerError("it has not T5's special tokens")
    return pieces


class _Fast:
    def __init__(self, content: str) -> None:
        from tokenizers import Tokenizer as FastTokenizer

        self._model = FastTokenizer.from_str(content)
        self._model.encode_special_tokens = True

    @property
    def size(self) -> int:
        return 1 + max(self._model.get_vocab().values(), default=-1)

    def name(self, token: int) -> str | None:
        name: str | None = self._model.id_to_token(token)
        return name

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._model.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: list[int]) -> str:
        text: str = self._model.decode(ids, skip_special_tokens=True)
        return text

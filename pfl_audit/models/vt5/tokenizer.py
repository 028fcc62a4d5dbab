"""T5's pieces: SentencePiece as the reference used it, or a ``tokenizer.json``."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Protocol

from pfl_audit.errors import AuditError

PAD, EOS, UNK = 0, 1, 2
"""T5's special tokens; everything that reads a VT5 relies on these numbers."""

# What transformers 4 did to decoded text before anybody scored it.
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
        try:
            if (folder / "spiece.model").is_file():
                tokenizer = cls(_SentencePiece(folder / "spiece.model"))
            elif (folder / "tokenizer.json").is_file():
                tokenizer = cls(_Fast(folder / "tokenizer.json"))
            else:
                raise AuditError(f"{folder} has no tokenizer", "Copy spiece.model or tokenizer.json beside the weights")
        except (RuntimeError, ValueError, OSError) as error:
            raise AuditError(f"the tokenizer of {folder} cannot be read", "Copy it again from its source") from error
        except Exception as error:  # the tokenizers library raises bare exceptions
            if isinstance(error, AuditError):
                raise
            raise AuditError(f"the tokenizer of {folder} cannot be read", "Copy it again from its source") from error
        return tokenizer

    @property
    def size(self) -> int:
        """Number of pieces that it can give out."""
        return self._pieces.size

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._pieces.encode(text))

    def decode(self, ids: list[int]) -> str:
        """Text of an answer: special tokens and unknown numbers left out, cleaned up as the reference does."""
        text = self._pieces.decode([token for token in ids if UNK < token < self.size])
        for spaced, tight in _CLEAN_UP:
            text = text.replace(spaced, tight)
        return text


class _SentencePiece:
    def __init__(self, path: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        self._model = SentencePieceProcessor()
        self._model.LoadFromSerializedProto(path.read_bytes())
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


class _Fast:
    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer as FastTokenizer

        self._model = FastTokenizer.from_file(str(path))
        self._model.encode_special_tokens = True
        if [self._model.id_to_token(token) for token in (PAD, EOS, UNK)] != ["<pad>", "</s>", "<unk>"]:
            raise ValueError("not T5's special tokens")

    @property
    def size(self) -> int:
        return int(self._model.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._model.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: list[int]) -> str:
        text: str = self._model.decode(ids, skip_special_tokens=True)
        return text

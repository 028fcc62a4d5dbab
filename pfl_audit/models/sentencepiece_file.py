"""Files of tokenizers: read within limits. A locked child opens them (``confined_pieces``)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pfl_audit.inputs import MIB, read_bytes

LARGEST_TOKENIZER = 32 * MIB
LONGEST_PIECE = 1024
"""Bytes; pieces that were trained have some dozens."""
MOST_PIECES = 1 << 20


class UnfitTokenizerError(ValueError):
    """A tokenizer file is invalid; the text gives the reason and holds nothing of the file."""


def read_sentencepiece(path: Path) -> bytes:
    """Bytes of a ``spiece.model``.

    Raises:
        UsageError: There is no such file.
        AuditError: It is no regular file, or too large.
    """
    return read_bytes(path, limit=LARGEST_TOKENIZER, remedy="Copy it again from its source")


def require_pieces(names: Collection[object]) -> None:
    """Check the names of a vocabulary.

    Raises:
        UnfitTokenizerError: They are too many, too long, or no texts.
    """
    if len(names) > MOST_PIECES:
        raise UnfitTokenizerError("it has too many pieces")
    if not all(isinstance(name, str) and len(name) <= LONGEST_PIECE for name in names):
        raise UnfitTokenizerError("a piece is too long, or no text")

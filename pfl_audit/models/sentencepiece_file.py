"""Validation of a ``spiece.model`` before SentencePiece's own code reads it.

SentencePiece follows a table of its normaliser (a double array of darts) without looking at its bounds, so the table is
held against its size first, and what it may put in the place of a letter is short.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pfl_audit.inputs import MIB, read_bytes

LARGEST_TOKENIZER = 32 * MIB
LONGEST_PIECE = 1024
"""Bytes; pieces that were trained have some dozens."""
MOST_PIECES = 1 << 20
_LARGEST_OTHER = MIB
_LONGEST_REPLACEMENT = 64
"""Bytes; the longest of Unicode's own (NFKC) has 33."""
_PIECE, _NORMALIZER, _DENORMALIZER, _TABLE = 1, 3, 5, 2
_TYPE, _CONTROL = 3, b"\x03"
"""Field of a piece that has its type, and the type of control symbols."""
_FIXED = {1: 8, 5: 4}
"""Wire type of a protobuf field to its bytes, where all its fields have as many."""


class UnfitTokenizerError(ValueError):
    """A tokenizer file is invalid; the text gives the reason and holds nothing of the file."""


def read_sentencepiece(path: Path) -> bytes:
    """Read the bytes of a ``spiece.model`` that SentencePiece can parse safely.

    Raises:
        UsageError: There is no such file.
        AuditError: It is no regular file, or too large.
        UnfitTokenizerError: It is damaged, or has rules that no tokenizer of the known families has.
    """
    content = read_bytes(path, limit=LARGEST_TOKENIZER, remedy="Copy it again from its source")
    pieces = other = 0
    for number, part in _fields(memoryview(content)):
        if number == _PIECE:
            pieces += 1
            if len(part) > LONGEST_PIECE or pieces > MOST_PIECES:
                raise UnfitTokenizerError("it has too many pieces, or one that is too long")
        elif number in (_NORMALIZER, _DENORMALIZER):
            for inner, value in _fields(part):
                if inner == _TABLE:
                    require_table(bytes(value))
                else:
                    other += len(value)
        else:
            other += len(part)
    if other > _LARGEST_OTHER:
        raise UnfitTokenizerError("it holds more than a vocabulary")
    return content


def control_pieces(content: bytes) -> dict[str, int]:
    """Control symbols of a model, to their ids.

    Args:
        content: What ``read_sentencepiece`` returned.
    """
    found, number = {}, 0
    for field, part in _fields(memoryview(content)):
        if field == _PIECE:
            inner = {name: bytes(value) for name, value in _fields(part)}
            if inner.get(_TYPE) == _CONTROL:
                found[inner.get(_PIECE, b"").decode("utf-8", "replace")] = number
            number += 1
    return found


def require_pieces(names: Collection[object]) -> None:
    """Check the names of a vocabulary.

    Raises:
        UnfitTokenizerError: They are too many, too long, or no texts.
    """
    if len(names) > MOST_PIECES:
        raise UnfitTokenizerError("it has too many pieces")
    if not all(isinstance(name, str) and len(name) <= LONGEST_PIECE for name in names):
        raise UnfitTokenizerError("a piece is too long, or no text")


def require_table(content: bytes) -> None:
    """Check a table of normalisation, as ``precompiled_charsmap`` holds it.

    It is the size of a double array in bytes, the array, and the replacements, each ended by NUL.

    Raises:
        UnfitTokenizerError: A step through it leads out of it, or a replacement is too long.
    """
    if not content:
        return
    size = int.from_bytes(content[:4], "little")
    if len(content) < 4 or size % 1024 or not 0 < size < len(content) - 4:
        raise UnfitTokenizerError("the table of its normaliser is damaged")
    units = np.frombuffer(content, "<u4", size // 4, 4).astype(np.int64)
    replacements = np.frombuffer(content, np.uint8, offset=4 + size)
    # darts: a unit's children lie at its own place xor its offset xor a byte; 0 leads to its value.
    children = np.arange(len(units)) ^ ((units >> 10) << ((units & 0x200) >> 6))
    inner = units < 1 << 31
    if bool((children[inner] | 0xFF >= len(units)).any()) or not inner[0]:
        raise UnfitTokenizerError("the table of its normaliser leads out of it")
    values = units[children[inner & (units & 0x100 != 0)]] & 0x7FFFFFFF
    if bool((values >= len(replacements)).any()) or replacements[-1] != 0:
        raise UnfitTokenizerError("the table of its normaliser leads out of it")
    ends = np.flatnonzero(replacements == 0)
    if int(np.diff(ends, prepend=-1).max()) > _LONGEST_REPLACEMENT:
        raise UnfitTokenizerError("its normaliser puts long texts in the place of a letter")


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and bytes of the fields of a protobuf message; numbers count as eight bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        begin = place
        if kind == 0:
            _, place = _varint(message, place)
        elif kind == 2:
            size, begin = _varint(message, place)
            place = begin + size
        else:
            place += _FIXED.get(kind, len(message))
        if key >= 1 << 32 or place > len(message):  # protobuf would drop the upper bits of a key
            raise UnfitTokenizerError("it is damaged")
        yield number, message[begin:place]


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise UnfitTokenizerError("it is damaged")
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise UnfitTokenizerError("it is damaged")

"""Donut's tokenizer: a unigram vocabulary as in XLM-R, and special tokens such as the markers around an answer.

From a ``tokenizer.json`` only the vocabulary with its scores and the special tokens are taken; how text is cut
before that is fixed, as in transformers. So no rule of the file is ever carried out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from pfl_audit.inputs import read_json
from pfl_audit.models.confined_pieces import Pieces
from pfl_audit.models.sentencepiece_file import (
    LARGEST_TOKENIZER,
    UnfitTokenizerError,
    read_sentencepiece,
    require_pieces,
)
from pfl_audit.models.tokenizer_files import find_unigrams, reading_tokenizer

BOS, PAD, EOS, UNK = "<s>", "<pad>", "</s>", "<unk>"
TASK, QUESTION, END_QUESTION, ANSWER, END_ANSWER = (
    "<s_docvqa>", "<s_question>", "</s_question>", "<s_answer>", "</s_answer>",
)  # fmt: skip
MARKS = (TASK, QUESTION, END_QUESTION, ANSWER, END_ANSWER)
"""Markers around a question and an answer (clovaai/donut, task ``docvqa``)."""

_NORMALIZERS = ("Precompiled", "Replace", "NFKC", "Nmt")
_REMEDY = "Copy the tokenizer of a Donut that was trained to answer questions beside the weights"


class DonutTokenizer:
    """Tokenizer of text, with decoding.

    Special tokens are never read out of a text: what would be one is an unknown piece.

    Args:
        pieces: Encoder and decoder of the vocabulary's pieces.
        specials: Id of every special token, which is no text; EOS and UNK are among them.
        size: Number of ids: the highest and one.
    """

    def __init__(self, pieces: Pieces, specials: Mapping[str, int], size: int) -> None:
        self._pieces = pieces
        self.specials = dict(specials)
        self._ids = frozenset(specials.values())
        self.size = size
        self.encode = lru_cache(maxsize=1 << 16)(self._encode)

    @classmethod
    def open(cls, folder: Path, marks: Sequence[str] = MARKS) -> DonutTokenizer:
        """Open a folder's tokenizer: ``spiece.model`` before ``tokenizer.json``.

        Args:
            marks: Special tokens that it must have beside EOS and UNK.

        Raises:
            AuditError: Neither is there, or it is damaged, of another kind, or without a mark.
        """
        file = find_unigrams(folder, _REMEDY)
        with reading_tokenizer(folder, _REMEDY, file):
            if file.suffix == ".model":
                opened = _from_sentencepiece(read_sentencepiece(file), str(file))
            else:
                opened = _from_json(read_json(file, limit=LARGEST_TOKENIZER), str(file))
            _require(opened.specials, (EOS, UNK, *marks))
            return opened

    def id(self, name: str) -> int:
        """Id of a special token."""
        return self.specials[name]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of an answer, without special tokens and unknown ids."""
        texts = [token for token in ids if 0 <= token < self.size and token not in self._ids]
        return self._pieces.decode(texts).strip()

    def _encode(self, text: str) -> tuple[int, ...]:
        unknown = self.specials[UNK]
        clean = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates cannot be read
        return tuple(unknown if token in self._ids else token for token in self._pieces.encode([clean])[0])


def special_tokens(folder: Path) -> dict[str, int]:
    """Special tokens of a folder's tokenizer to their ids.

    Raises:
        AuditError: It has no tokenizer, or a damaged one.
    """
    file = find_unigrams(folder, _REMEDY)
    with reading_tokenizer(folder, _REMEDY, file):
        if file.suffix == ".model":
            return Pieces("sentencepiece", read_sentencepiece(file), str(file)).ids
        return _added(read_json(file, limit=LARGEST_TOKENIZER))


def _added(content: Any) -> dict[str, int]:
    """Added tokens of a ``tokenizer.json``."""
    added = {token["content"]: token["id"] for token in content.get("added_tokens") or ()}
    require_pieces(added)
    if not all(isinstance(token, int) and token >= 0 for token in added.values()):
        raise UnfitTokenizerError("the number of a token is no whole number")
    return added


def _from_sentencepiece(content: bytes, where: str) -> DonutTokenizer:
    pieces = Pieces("sentencepiece", content, where, (BOS, PAD, EOS, UNK, *MARKS))
    return DonutTokenizer(pieces, pieces.ids, pieces.size)


def _from_json(content: Any, where: str) -> DonutTokenizer:
    model = content["model"]
    if model["type"] != "Unigram":
        raise UnfitTokenizerError("it is no unigram vocabulary, as Donut's is")
    if model.get("byte_fallback"):
        raise UnfitTokenizerError("it falls back to bytes, which Donut's does not")
    vocabulary = [(name, float(score)) for name, score in model["vocab"]]
    require_pieces([name for name, _ in vocabulary])
    if not all(isfinite(score) for _, score in vocabulary):
        raise UnfitTokenizerError("the score of a piece is not finite")
    added = _added(content)
    known = {name: token for token, (name, _) in enumerate(vocabulary) if name in (BOS, PAD, EOS, UNK, *MARKS)} | added
    _require(known, (EOS, UNK))
    if model["unk_id"] != known[UNK]:
        raise UnfitTokenizerError(f"its unknown piece is not {UNK}")
    pieces = Pieces("unigram", json.dumps([vocabulary, known[UNK], _normalizes(content.get("normalizer"))]), where)
    return DonutTokenizer(pieces, known, max(len(vocabulary), *(1 + token for token in known.values())))


def _normalizes(rule: Any) -> bool:
    """Whether the file normalises text as XLM-R does; it may also leave it as it is."""
    if not rule:
        return False
    rules = rule["normalizers"] if rule["type"] == "Sequence" else [rule]
    if not all(part["type"] in _NORMALIZERS for part in rules):
        raise UnfitTokenizerError("it normalises text in another way than Donut's does")
    return bool(rules)


def _require(known: Mapping[str, int], names: Sequence[str]) -> None:
    if absent := [name for name in names if name not in known]:
        raise UnfitTokenizerError(f"it has no {absent[0]}")
    if len({known[name] for name in names}) < len(names):
        raise UnfitTokenizerError("two of its special tokens have the same number")

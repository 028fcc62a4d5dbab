"""LayoutLM's tokenizer: WordPiece as in BERT, or byte-level BPE as in RoBERTa.

Only the vocabulary (and for BPE its merges) is taken from a checkpoint; how text is cut before that is
fixed by the kind, as in transformers. So no rule of a ``tokenizer.json`` is ever carried out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers

from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_there, read_json, read_text
from pfl_audit.models.sentencepiece_file import LARGEST_TOKENIZER, MOST_PIECES, UnfitTokenizerError, require_pieces
from pfl_audit.models.tokenizer_files import reading_tokenizer
from pfl_audit.models.weights import read_settings

_REMEDY = "Copy the tokenizer that the model was trained with beside the weights"
_LONGEST_NAMED = 1 << 20


_WORD = "\u0120"
"""Prefix of the first piece of a word in byte-level BPE."""


@dataclass(frozen=True)
class Frame:
    """Special tokens around a question and a page, and the segment that the page belongs to.

    Attributes:
        before: Ids before the question.
        between: Ids between question and page.
        after: Ids after the page.
        segment: Token type of the page and of what comes after it; all else has 0.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    segment: int


class WordTokenizer:
    """Tokenizer of words.

    Special tokens are never read out of a text: a word ``[SEP]`` is a word.

    Args:
        pieces: Without added tokens or a post-processor.
        vocabulary: Piece to id.
        frame: Special tokens around a question and a page.
        longest: Largest number of input tokens by the checkpoint's own settings, or None.
    """

    def __init__(self, pieces: Any, vocabulary: Mapping[str, int], frame: Frame, longest: int | None) -> None:
        self._pieces = pieces
        self._vocabulary = vocabulary
        self.size = max(vocabulary.values()) + 1
        self.frame = frame
        self.longest = longest
        self.unknown = vocabulary.get("[UNK]", vocabulary.get("<unk>", frame.after[0]))
        self.encode = lru_cache(maxsize=1 << 16)(self._encode)

    @classmethod
    def open(cls, folder: Path) -> WordTokenizer:
        """Open a folder's tokenizer: ``tokenizer.json``, else ``vocab.txt``, else ``vocab.json`` with ``merges.txt``.

        Raises:
            AuditError: None of them is there, or it is damaged or of another kind.
        """
        with reading_tokenizer(folder, _REMEDY):
            settings = _settings(folder)
            if is_there(folder / "tokenizer.json"):
                return _from_json(read_json(folder / "tokenizer.json", limit=LARGEST_TOKENIZER), settings)
            if is_there(folder / "vocab.txt"):
                return _word_piece(_pieces(folder / "vocab.txt"), {}, {}, settings)
            if is_there(folder / "vocab.json") and is_there(folder / "merges.txt"):
                vocabulary = read_json(folder / "vocab.json", limit=LARGEST_TOKENIZER)
                merges = [line for line in _lines(folder / "merges.txt") if not line.startswith("#version")]
                return _byte_pairs(vocabulary, _pairs(merges), {}, settings)
        raise AuditError(f"{folder} has no tokenizer (tokenizer.json, vocab.txt or vocab.json and merges.txt)", _REMEDY)

    def goes_on(self, rows: int) -> list[bool]:
        """For each row of the embedding, whether its piece continues a word."""
        word_piece, specials = self.frame.segment == 1, {*self.frame.before, *self.frame.between, *self.frame.after}
        flags = [False] * rows
        for piece, number in self._vocabulary.items():
            inside = piece.startswith("##") if word_piece else not piece.startswith(_WORD)
            if number < rows:
                flags[number] = inside and number not in specials
        return flags

    def words(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """Ids of each word, none for a word of which nothing is left."""
        return [self.encode(word) for word in words]

    def decode(self, ids: Sequence[int]) -> str:
        """Ids as text, with special tokens by their names; unknown ones (-1) are left out."""
        return str(self._pieces.decode([number for number in ids if number >= 0], skip_special_tokens=False))

    def _encode(self, word: str) -> tuple[int, ...]:
        return tuple(self._pieces.encode(word, add_special_tokens=False).ids)


@dataclass(frozen=True)
class _Settings:
    """What ``tokenizer_config.json`` says: it goes before what ``tokenizer.json`` says."""

    casing: dict[str, bool]
    longest: int | None


def _settings(folder: Path) -> _Settings:
    content = read_settings(folder / "tokenizer_config.json")
    names = {"do_lower_case": "lowercase", "strip_accents": "strip_accents",
             "tokenize_chinese_chars": "handle_chinese_chars"}  # fmt: skip
    casing = {ours: content[theirs] for theirs, ours in names.items() if isinstance(content.get(theirs), bool)}
    longest = content.get("model_max_length")
    return _Settings(casing, longest if isinstance(longest, int) and 0 < longest < _LONGEST_NAMED else None)


def _from_json(content: Any, settings: _Settings) -> WordTokenizer:
    """Read what ``tokenizer.json`` says of the vocabulary, and of BERT's casing."""
    model = content["model"]
    specials = {str(token["content"]): token["id"] for token in content.get("added_tokens") or ()}
    if model["type"] == "WordPiece":
        return _word_piece(model["vocab"], specials, content.get("normalizer") or {}, settings)
    if model["type"] == "BPE":
        return _byte_pairs(model["vocab"], _pairs(model["merges"]), specials, settings)
    raise UnfitTokenizerError("it is neither WordPiece nor BPE")


def _pieces(path: Path) -> dict[str, int]:
    """The pieces of a ``vocab.txt``, a line each."""
    return {line.rstrip(): number for number, line in enumerate(_lines(path))}


def _lines(path: Path) -> list[str]:
    lines = read_text(path, limit=LARGEST_TOKENIZER, remedy="Copy it again from its source").split("\n")
    return lines[:-1] if not lines[-1] else lines


def _pairs(merges: Sequence[Any]) -> list[tuple[str, str]]:
    if len(merges) > MOST_PIECES:
        raise UnfitTokenizerError("it has too many merges")
    pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in merges)
    return [(left, right) for left, right in pairs]


def _word_piece(
    vocabulary: Mapping[str, int], specials: Mapping[str, int], normalizer: Mapping[str, Any], settings: _Settings
) -> WordTokenizer:
    if normalizer and normalizer["type"] != "BertNormalizer":
        raise UnfitTokenizerError("its WordPiece does not cut text as BERT does")
    names = ("lowercase", "strip_accents", "handle_chinese_chars")
    casing = {name: normalizer[name] for name in names if isinstance(normalizer.get(name), bool)}
    every = _whole(vocabulary, specials)
    begin, end, _ = (_special(every, name) for name in ("[CLS]", "[SEP]", "[UNK]"))
    pieces: Any = FastTokenizer(models.WordPiece(every, unk_token="[UNK]"))  # noqa: S106 - a token, no secret
    pieces.normalizer = normalizers.BertNormalizer(**(casing | settings.casing))
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces.decoder = decoders.WordPiece()
    return WordTokenizer(pieces, every, Frame((begin,), (end,), (end,), segment=1), settings.longest)


def _byte_pairs(
    vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], specials: Mapping[str, int], settings: _Settings
) -> WordTokenizer:
    every = _whole(vocabulary, specials)
    begin, end = (_special(every, name) for name in ("<s>", "</s>"))
    pieces: Any = FastTokenizer(models.BPE(every, list(merges)))
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    pieces.decoder = decoders.ByteLevel()
    return WordTokenizer(pieces, every, Frame((begin,), (end, end), (end,), segment=0), settings.longest)


def _whole(vocabulary: Mapping[str, Any], specials: Mapping[str, Any]) -> dict[str, int]:
    """Every piece and its number."""
    every = {**specials, **vocabulary}
    require_pieces(every)
    if not all(isinstance(number, int) and number >= 0 for number in every.values()):
        raise UnfitTokenizerError("the number of a piece is no whole number")
    return every


def _special(vocabulary: Mapping[str, int], name: str) -> int:
    if name not in vocabulary:
        raise UnfitTokenizerError(f"it has no {name}")
    return vocabulary[name]

"""LayoutLM's tokenizer: WordPiece as in BERT, or byte-level BPE as in RoBERTa.

Only the vocabulary (and for BPE its merges) is taken from a checkpoint; how text is cut before that is
fixed by the kind, as in transformers. So no rule of a ``tokenizer.json`` is ever carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pfl_audit.models.encoders.vocabulary import Vocabulary, read_vocabulary
from pfl_audit.models.sentencepiece_file import UnfitTokenizerError
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
        read: Pieces, and for BPE merges.
        longest: Largest number of input tokens by the checkpoint's own settings, or None.

    Raises:
        UnfitTokenizerError: A special token is missing.
    """

    def __init__(self, read: Vocabulary, longest: int | None) -> None:
        ids = {piece: number for number, piece in enumerate(read.pieces)}
        _, unknown, begin, end, _ = read.special
        if missing := [name for name in (begin, end, unknown) if name not in ids]:
            raise UnfitTokenizerError(f"it has no {missing[0]}")
        first, last = (ids[begin],), (ids[end],)
        self._pieces, self._names = read.tokenizer(), read.pieces
        self.size, self.longest, self.unknown = len(read.pieces), longest, ids[unknown]
        self.frame = Frame(first, last, last, 1) if read.merges is None else Frame(first, last * 2, last, 0)
        self.encode = lru_cache(maxsize=1 << 16)(self._encode)

    @classmethod
    def open(cls, folder: Path) -> WordTokenizer:
        """Open a folder's tokenizer, as read_vocabulary.

        Raises:
            AuditError: There is none, or it is damaged or of another kind.
        """
        with reading_tokenizer(folder, _REMEDY):
            longest = read_settings(folder / "tokenizer_config.json").get("model_max_length")
            usable = isinstance(longest, int) and 0 < longest < _LONGEST_NAMED
            return cls(read_vocabulary(folder), longest if usable else None)

    def goes_on(self, rows: int) -> list[bool]:
        """For each row of the embedding, whether its piece continues a word."""
        word_piece, specials = self.frame.segment == 1, {*self.frame.before, *self.frame.between, *self.frame.after}
        inside = [name.startswith("##") if word_piece else not name.startswith(_WORD) for name in self._names[:rows]]
        return [number < self.size and inside[number] and number not in specials for number in range(rows)]

    def decode(self, ids: Sequence[int]) -> str:
        """Ids as text, with special tokens by their names; unknown ones (-1) are left out."""
        return str(self._pieces.decode([number for number in ids if number >= 0], skip_special_tokens=False))

    def _encode(self, word: str) -> tuple[int, ...]:
        """Ids of a word, none where nothing is left of it."""
        return tuple(self._pieces.encode(word, add_special_tokens=False).ids)

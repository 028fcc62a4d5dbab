"""BERT's WordPiece tokenizer and RoBERTa's byte-level BPE, and the windows of a form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import sha256_json, write_json, write_text
from pfl_audit.models.encoders.vocabulary import Casing, Merges, Vocabulary, read_vocabulary, train_vocabulary
from pfl_audit.models.form_protocol import Blank, TokenIds, TokenSpan, Window

_UNUSED = re.compile(r"\[unused\d+\]|madeupword\d+")
_LONGEST_WORD = 1000
"""Characters of a word that are tokenised; WordPiece knows no word above 100."""


class FormTokenizer:
    """BERT's WordPiece tokenizer, or with merges RoBERTa's, which cuts each word as if a blank came before it.

    Special tokens are never read out of a document's text: a word ``[MASK]`` is a word.

    Args:
        vocabulary: Pieces by id, the special tokens among them.
        casing: How words are changed before they are cut into word pieces.
        merges: Merges of byte-level BPE, or None for WordPiece.

    Raises:
        ValueError: A special token is missing, a piece is listed twice, or there are no ordinary ones.
    """

    def __init__(
        self, vocabulary: Iterable[str], *, casing: Casing | None = None, merges: Merges | None = None
    ) -> None:
        self.vocabulary = tuple(vocabulary)
        self.casing = casing or Casing()
        self.merges = merges
        read = Vocabulary(self.vocabulary, self.casing, merges)
        self.special = read.special
        ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        if len(ids) != len(self.vocabulary):
            raise ValueError("a piece is listed twice")
        if missing := [piece for piece in self.special if piece not in ids]:
            raise ValueError(f"it lacks {missing[0]}")
        if len(ids) == len(self.special):
            raise ValueError("it has no pieces but the special ones")
        self.pad, self.unk, self.cls, self.sep, self.mask = (ids[piece] for piece in self.special)
        self._pieces = read.tokenizer()
        self.encode = lru_cache(maxsize=1 << 16)(self._encode)

    @classmethod
    def open(cls, folder: Path) -> FormTokenizer:
        """Open a folder's tokenizer, as read_vocabulary. Its files are read as data alone.

        Raises:
            AuditError: There is none, or it is damaged or neither BERT's WordPiece nor RoBERTa's BPE.
        """
        read = read_vocabulary(folder)
        try:
            return cls(read.pieces, casing=read.casing, merges=read.merges)
        except Exception as error:  # the tokenizers library raises bare exceptions
            raise AuditError(
                f"the tokenizer of {folder} cannot be used: {' '.join(str(error).split())[:120]}",
                "Copy vocab.txt or tokenizer.json again from its source",
            ) from error

    @classmethod
    def train(cls, texts: Iterable[str], size: int, folder: Path) -> FormTokenizer:
        """Train a vocabulary of at most ``size`` pieces on texts, and write it.

        Raises:
            UsageError: ``size`` is too small to hold the special tokens and the letters.
        """
        if size < 100:
            raise UsageError(f"a vocabulary of {size} pieces is too small", "Give at least 100")
        tokenizer = cls(train_vocabulary(texts, size))
        tokenizer.save(folder)
        return tokenizer

    def save(self, folder: Path) -> None:
        """Write the vocabulary (and merges) and ``tokenizer_config.json``, which transformers opens too."""
        names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
        config: dict[str, object]
        if self.merges is None:
            write_text(folder / "vocab.txt", "".join(f"{piece}\n" for piece in self.vocabulary))
            config = {"tokenizer_class": "BertTokenizer", **self.casing.to_dict()}
        else:
            pieces = {piece: number for number, piece in enumerate(self.vocabulary)}
            write_json(folder / "vocab.json", pieces)
            merges = "".join(f"{left} {right}\n" for left, right in self.merges)
            write_text(folder / "merges.txt", f"#version: 0.2\n{merges}")
            config = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}
        config |= dict(zip(names, self.special, strict=True))
        write_json(folder / "tokenizer_config.json", config)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the pieces, their order, and how words are cut and normalised."""
        if self.merges is not None:
            return sha256_json([list(self.vocabulary), [list(pair) for pair in self.merges]])
        casing = self.casing.to_dict()
        return sha256_json([list(self.vocabulary), casing.pop("do_lower_case"), *([casing] if casing else [])])

    @cached_property
    def ordinary(self) -> TokenIds:
        """Ids of the pieces that words are made of: neither special nor unused. int64, ascending."""
        return np.array(
            [
                n
                for n, piece in enumerate(self.vocabulary)
                if piece not in self.special and not _UNUSED.fullmatch(piece)
            ],
            dtype=np.int64,
        )

    def _encode(self, word: str) -> tuple[int, ...]:
        clean = word[:_LONGEST_WORD].encode("utf-8", "replace").decode("utf-8")  # lone surrogates cannot be read
        return tuple(self._pieces.encode(clean, add_special_tokens=False).ids)

    def windows(self, form: Form, max_tokens: int) -> list[Window]:
        """Cut a form into consecutive windows: [CLS], words, [SEP].

        No word and no field is cut by a window's edge, unless it is longer than a window; such a field is in
        no window's spans, and neither is one of which no token is left. The same form always comes out the same.

        Args:
            form: Any page; one without a token has no window.
            max_tokens: Longest window, special tokens included.

        Raises:
            UsageError: ``max_tokens`` leaves no room for a token.
        """
        room = max_tokens - 2
        if room < 1:
            raise UsageError(f"a window of {max_tokens} tokens holds no word", "Give max_tokens of 3 or more")
        windows: list[Window] = []
        ids: list[int] = []
        words: list[int] = []
        spans: list[TokenSpan] = []
        for unit, field in self._units(form, room):
            if ids and len(ids) + len(unit) > room:
                windows.append(self._window(form, len(windows), ids, words, spans))
                ids, words, spans = [], [], []
            if field is not None:
                spans.append(TokenSpan(field, 1 + len(ids), 1 + len(ids) + len(unit)))
            ids += [token for token, _ in unit]
            words += [word for _, word in unit]
        if ids:
            windows.append(self._window(form, len(windows), ids, words, spans))
        return windows

    def scrub(self, window: Window, span: TokenSpan) -> tuple[Blank, tuple[int, ...]]:
        """Replace a field of a window by mask tokens.

        Returns:
            The blank that the adversary has, and the true ids.
        """
        ids = window.ids.copy()
        truth = tuple(int(token) for token in ids[span.start : span.stop])
        ids[span.start : span.stop] = self.mask
        masked = Window(window.form, window.number, ids, window.boxes, window.words, window.spans)
        return Blank(masked, span, window.form.document.boxes[span.field.start : span.field.stop].copy()), truth

    def _units(self, form: Form, room: int) -> Iterator[tuple[list[tuple[int, int]], Field | None]]:
        """Units that windows must not split: (token, word) lists of at most ``room``, and the field of each or None."""
        beginning = {field.start: field for field in form.fields}
        word = 0
        while word < len(form.document.words):
            field = beginning.get(word)
            stop = field.stop if field is not None else word + 1
            unit = [(token, w) for w in range(word, stop) for token in self.encode(form.document.words[w])]
            if field is not None and 0 < len(unit) <= room:
                yield unit, field
            else:
                yield from ((unit[start : start + room], None) for start in range(0, len(unit), room))
            word = stop

    def _window(self, form: Form, number: int, ids: list[int], words: list[int], spans: list[TokenSpan]) -> Window:
        """Add the special tokens.

        Their boxes are the page's first and last corner, as in LayoutLM, or both the first, as in LayoutLMv3 and LiLT.
        """
        boxes = form.document.boxes[words]
        last = np.ones((1, 4), np.float32) if self.merges is None else np.zeros((1, 4), np.float32)
        return Window(
            form,
            number,
            np.array([self.cls, *ids, self.sep], dtype=np.int64),
            np.concatenate([np.zeros((1, 4), np.float32), boxes, last]),
            np.array([-1, *words, -1], dtype=np.int64),
            tuple(spans),
        )

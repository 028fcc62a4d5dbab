"""Inputs of a token tagger: the words of a page in windows, with their boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import torch
from torch import Tensor

from pfl_audit.documents.document import Document
from pfl_audit.models.auto.processor import longest_input
from pfl_audit.models.auto.token_filter import TokenFilter
from pfl_audit.models.thousandths import thousandths

SHARE: Final = 4
"""Windows overlap by a fourth of what fits."""
LONGEST: Final = 2048
"""Largest number of tokens of a window."""


@dataclass(frozen=True)
class Window:
    """Some words of a page as the network's inputs.

    Attributes:
        tensors: By the network's names, each with a first dimension of 1.
        words: Number of each word in it.
        firsts: Index of the first token of each of these words.
    """

    tensors: dict[str, Tensor]
    words: tuple[int, ...]
    firsts: tuple[int, ...]


class TaggerInputs:
    """Builds the windows of pages.

    Words are tokenised one by one, as transformers does with words that are split already; the tokens of a word share
    its box, in thousandths of the page. A word of which the tokenizer leaves nothing has no token, and no label.

    Args:
        tokenizer: Fast tokenizer of transformers, backed by the tokenizers library.
        positions: Tokens that have a position in the network.
        highest: Largest coordinate of a box; 0 if the network takes no boxes.
        far: Whether the last special token has the box of the far corner instead of 0 0 0 0.
        types: Whether the network takes token types.
    """

    def __init__(self, tokenizer: Any, positions: int, *, highest: int, far: bool, types: bool) -> None:
        special = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
        self._clean = TokenFilter([*tokenizer.all_special_tokens, *special])
        self._backend, self._highest, self._types = tokenizer.backend_tokenizer, highest, types
        self._backend.no_truncation()  # which a tokenizer.json may state, as of the training
        self._backend.no_padding()
        self._before = _some(tokenizer.cls_token_id, tokenizer.bos_token_id)
        self._after = _some(tokenizer.sep_token_id, tokenizer.eos_token_id)
        self._last = [highest if far else 0] * 4
        self.pad = int(tokenizer.pad_token_id or 0)
        limit = min(positions, longest_input(tokenizer), LONGEST)
        self.longest = max(len(self._before) + len(self._after) + 2, limit)

    def windows(self, document: Document) -> list[Window]:
        """The page in windows that overlap by whole words; a word longer than a window is cut. None without words."""
        pieces = self._pieces(document.words)
        kept = [number for number, piece in enumerate(pieces) if piece]
        room = self.longest - len(self._before) - len(self._after)
        sizes = [min(len(pieces[number]), room) for number in kept]
        found, start = list[Window](), 0
        while start < len(kept):
            stop = start + max(1, sum(total <= room for total in accumulate(sizes[start:])))
            found.append(self._window(document, pieces, kept[start:stop], room))
            if stop == len(kept):
                break
            shared = sum(total <= room // SHARE for total in accumulate(reversed(sizes[start:stop])))
            start = max(start + 1, stop - shared)
        return found

    def _pieces(self, words: Sequence[str]) -> list[list[int]]:
        pieces: list[list[int]] = [[] for _ in words]
        if words:
            clean = [self._clean(word) for word in words]
            made = self._backend.encode(clean, is_pretokenized=True, add_special_tokens=False)
            for token, word in zip(made.ids, made.word_ids, strict=True):
                pieces[word].append(token)
        return pieces

    def _window(self, document: Document, pieces: Sequence[list[int]], words: Sequence[int], room: int) -> Window:
        parts = [pieces[word][:room] for word in words]
        firsts = list(accumulate([len(self._before), *map(len, parts[:-1])]))
        ids = [*self._before, *(token for part in parts for token in part), *self._after]
        tensors = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.int64)}
        if self._types:
            tensors["token_type_ids"] = torch.zeros(1, len(ids), dtype=torch.int64)
        if self._highest:
            scaled = thousandths(document.boxes, self._highest).tolist()
            rows = [scaled[word] for word, part in zip(words, parts, strict=True) for _ in part]
            rows = [*([[0] * 4] * len(self._before)), *rows, *([self._last] * len(self._after))]
            tensors["bbox"] = torch.tensor([rows])
        return Window(tensors, tuple(words), tuple(firsts))


def _some(*tokens: int | None) -> list[int]:
    """The first token that there is."""
    return [token for token in tokens if token is not None][:1]

"""Inputs of a query: question and page as a pair, in overlapping windows if the page is long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pfl_audit.documents.document import Document, Query
from pfl_audit.models.layoutlm.config import QaConfig
from pfl_audit.models.layoutlm.spans import find_answer
from pfl_audit.models.layoutlm.tokenizer import WordTokenizer
from pfl_audit.models.thousandths import thousandths

OVERLAP = 128
"""Tokens that a window shares with the one before it, as in the usual training on SQuAD."""


@dataclass(frozen=True, eq=False)
class Passage:
    """A question with a window of the page.

    Attributes:
        ids: int64 (tokens,), special tokens included.
        boxes: int64 (tokens, 4), rows of the position tables.
        types: int64 (tokens,), the segment of each token.
        offset: Index of the first token of the page.
        words: int64 (tokens of the page,), the word that each belongs to.
        begin: Number of tokens of the page before this passage.
    """

    ids: NDArray[np.int64]
    boxes: NDArray[np.int64]
    types: NDArray[np.int64]
    offset: int
    words: NDArray[np.int64]
    begin: int

    @property
    def stop(self) -> int:
        """The first token after the page's."""
        return self.offset + len(self.words)

    def tensors(self) -> dict[str, Tensor]:
        """The network's inputs without a batch dimension, by its own names; the mask is 1 everywhere."""
        ids, boxes, types = (torch.from_numpy(array) for array in (self.ids, self.boxes, self.types))
        return {"input_ids": ids, "bbox": boxes, "token_type_ids": types, "attention_mask": torch.ones_like(ids)}


@dataclass(frozen=True)
class Target:
    """Target of training: a passage, and the first and last token of the answer in it."""

    passage: int
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class _Page:
    ids: NDArray[np.int64]
    boxes: NDArray[np.int64]
    words: NDArray[np.int64]


class InputBuilder:
    """Builds a LayoutLM's inputs."""

    def __init__(self, config: QaConfig, tokenizer: WordTokenizer) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self.longest = min(config.longest, tokenizer.longest or config.longest)
        self._page = lru_cache(maxsize=4096)(self._read)

    def passages(self, query: Query) -> list[Passage]:
        """The question with each window of the page, at least one.

        A question longer than half of the input is cut there. Windows overlap by OVERLAP tokens, or by half
        of what fits, so that an answer is cut in one and whole in the next.
        """
        question = [token for word in query.question.split() for token in self.tokenizer.encode(word)]
        question = question[: self.longest // 2]
        page, frame = self._page(query.document), self.tokenizer.frame
        room = self.longest - len(question) - len(frame.before + frame.between + frame.after)
        step = room - min(OVERLAP, room // 2)
        last = max(0, -(-(len(page.ids) - room) // step))
        return [self._passage(question, page, number * step, room) for number in range(last + 1)]

    def labelled(self, query: Query) -> dict[str, Tensor]:
        """The passage of the target, with ``start_positions`` and ``end_positions``, int64 ()."""
        passages = self.passages(query)
        target = self.target(query, passages)
        places = {"start_positions": torch.tensor(target.start), "end_positions": torch.tensor(target.end)}
        return passages[target.passage].tensors() | places

    def target(self, query: Query, passages: Sequence[Passage]) -> Target:
        """Target of the first accepted answer: the first window that holds all of it.

        The target of an answer that no window holds is CLS, the token 0, of the first window.
        """
        found = find_answer(query.document.words, query.answers[0])
        if found is not None:
            of = self._page(query.document).words
            where = np.flatnonzero((of >= found[0]) & (of <= found[1]))
            for number, passage in enumerate(passages if len(where) else ()):
                first, last = (int(where[end]) - passage.begin for end in (0, -1))
                if first >= 0 and last < len(passage.words):
                    return Target(number, passage.offset + first, passage.offset + last)
        return Target(0, 0, 0)

    def pad(self, texts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Pad texts on the right to the longest.

        Args:
            texts: As ``Passage.tensors`` has them; what else they hold is left out.

        Returns:
            int64 (batch, tokens), ``bbox`` (batch, tokens, 4), by the network's names.
        """
        fillers = {"input_ids": int(self.config.network.pad_token_id), "bbox": 0, "token_type_ids": 0,
                   "attention_mask": 0}  # fmt: skip
        return {
            name: pad_sequence([text[name] for text in texts], batch_first=True, padding_value=filler)
            for name, filler in fillers.items()
        }

    def _passage(self, question: list[int], page: _Page, begin: int, room: int) -> Passage:
        frame, part = self.tokenizer.frame, slice(begin, begin + room)
        head = [*frame.before, *question, *frame.between]
        count = len(page.ids[part])
        boxes = np.zeros((len(head) + count + len(frame.after), 4), dtype=np.int64)
        if self.config.version == 1:  # separators stand at the far corner, as in transformers' pipeline
            boxes[len(head) - len(frame.between) :] = self.config.highest_box
        boxes[len(head) : len(head) + count] = page.boxes[part]
        types = np.zeros(len(boxes), dtype=np.int64)
        types[len(head) :] = min(frame.segment, int(self.config.network.type_vocab_size) - 1)
        ids = np.concatenate([np.array(head), page.ids[part], np.array(frame.after)])
        return Passage(ids.astype(np.int64), boxes, types, len(head), page.words[part], begin)

    def _read(self, document: Document) -> _Page:
        pieces = [self.tokenizer.encode(word) for word in document.words]
        words = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
        boxes = thousandths(document.boxes, self.config.highest_box)
        return _Page(np.array([token for piece in pieces for token in piece], dtype=np.int64), boxes[words], words)

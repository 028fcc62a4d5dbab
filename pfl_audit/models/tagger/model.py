"""A token tagger as a DocumentModel: a page is tagged once, and its spans answer all queries about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.documents.document import Document, Query
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.models.auto.batch import collate
from pfl_audit.models.device import in_double
from pfl_audit.models.field_keys import listed, no_field, normal_key, occurrence
from pfl_audit.models.layoutlm.spans import find_answers
from pfl_audit.models.memory import keep_freed_memory
from pfl_audit.models.opened import OpenedCheckpoint
from pfl_audit.models.pages_ahead import PagesAhead
from pfl_audit.models.protocol import QUESTIONS, Response
from pfl_audit.models.samples import require_finite_losses
from pfl_audit.models.tagger.inputs import Window
from pfl_audit.models.tagger.kinds import AUTO
from pfl_audit.models.tagger.load import load_tagger

ADAPTER_VERSION = 2
"""Incremented whenever the adapter's results change, so that stored answers are not reused."""

_BATCH_BYTES = 192 << 20
_MAX_BATCH = 64
_SCORE_BYTES = 16
"""Bytes of an attention score; version 3 of LayoutLM holds its relative biases beside it."""


@dataclass(frozen=True)
class _Tagged:
    """A page with the probabilities of its labels.

    Attributes:
        words: Number of each word that has tokens.
        logarithms: Log-probabilities of the labels of these words, float64 (words, labels).
    """

    words: tuple[int, ...]
    logarithms: NDArray[np.float64]


class TokenTagger(OpenedCheckpoint):
    """A checkpoint of a token tagger on disk, ready to be audited.

    A word has the label of its first token; of a page longer than the input, in the window where most tokens are
    around it. The answer to a query is the text of the span of its key, of several spans the one that equals the
    first accepted answer, else the first; without a span it is empty, with confidence 0. Confidence is the product
    of the probabilities of the span's labels. The loss is the mean cross-entropy of the labels that the first accepted
    answer should have, in the place on the page where that is lowest. For an answer that is not on the page it is the
    mean over all words of -log(1 - p), with the probability p of a label of the key.
    """

    family = "token-tagger"
    capabilities = QUESTIONS

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        keep_freed_memory()
        loaded = load_tagger(folder)
        self.network, self.labels, self.inputs = loaded.network.to(device), loaded.labels, loaded.inputs
        self._pixels, self._device = loaded.pixels, device
        self._page_pixels = (
            PagesAhead(loaded.pixels.of_document, 12 * prod(loaded.pixels.size)) if loaded.pixels else None
        )
        self._tagged: dict[str, _Tagged] = {}
        notes = (
            f"{type(self.network).__name__}, opened through {AUTO}, asked without a question",
            f"keys: {listed(self.labels.keys)}",
            f"page image: {'seen' if self._pixels else 'not seen'}",
            f"a page longer than {self.inputs.longest} tokens is tagged in windows",
        )
        self.identify(folder, loaded.files, ADAPTER_VERSION, notes)

    def prepare(self, documents: Sequence[Document]) -> None:
        """As of PreparingModel."""
        if self._page_pixels is not None:
            self._page_pixels.prepare([document for document in documents if document.digest not in self._tagged])

    def forget_pages(self) -> None:
        """Drop the labels of pages, as the network that made them changes."""
        self._tagged.clear()

    def require_field(self, query: Query) -> None:
        """Check that there are labels of a query's key, and words to label.

        Raises:
            UnanswerableError: There are none.
        """
        if normal_key(query.key) not in self.labels.keys:
            raise no_field(query)
        if not any(map(str.strip, query.document.words)):
            reason = "the page has no words to label"
            raise UnanswerableError(f"{reason} (page {query.document.id})", "Import it with OCR", reason)

    def cost(self, query: Query) -> int:
        """Tokens of the longest window."""
        return min(self.inputs.longest, 2 * len(query.document.words) + 2) + self._patches

    def batch_size(self, cost: int) -> int:
        """Largest batch that keeps the attention scores of one layer below a fixed number of bytes."""
        heads = int(getattr(self.network.config, "num_attention_heads", 16))
        return max(1, min(_MAX_BATCH, _BATCH_BYTES // (heads * cost * cost * _SCORE_BYTES)))

    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Answer a batch; the response to a query does not depend on the others.

        Raises:
            UnanswerableError: A page's image cannot be read, it has no words, or the model has no label of a key.
            AuditError: The model fails, or computes NaN or infinite losses.
        """
        for query in queries:
            self.require_field(query)
        pages = {query.document.digest: query.document for query in queries}
        self._tagged = {
            name: self._tagged[name] if name in self._tagged else self._tag(page) for name, page in pages.items()
        }
        return [self._response(query, self._tagged[query.document.digest]) for query in queries]

    def _response(self, query: Query, page: _Tagged) -> Response:
        key, words = normal_key(query.key), query.document.words
        best = page.logarithms.argmax(axis=1)
        spans = [(start, stop) for name, start, stop in self.labels.spans(best.tolist()) if name == key]
        values = [" ".join(words[page.words[place]] for place in range(start, stop)) for start, stop in spans]
        number = occurrence(values, query.answers[0])
        loss, tokens = self._loss(query, key, page)
        if number is None:
            return Response("", 0.0, loss, tokens)
        start, stop = spans[number]
        sure = float(np.exp(page.logarithms[start:stop].max(axis=1).sum()))
        return Response(values[number], sure, loss, tokens)

    def _loss(self, query: Query, key: str, page: _Tagged) -> tuple[float, int]:
        losses = []
        for first, last in find_answers(query.document.words, query.answers[0]):
            places = [place for place, word in enumerate(page.words) if first <= word <= last]
            if places:
                true = self.labels.true(key, len(places))
                losses.append((-float(page.logarithms[places, true].mean()), len(places)))
        if losses:
            return min(losses)
        others = [number for number in range(len(self.labels.names)) if number not in self.labels.keys[key]]
        without = np.logaddexp.reduce(page.logarithms[:, others], axis=1) if others else np.full(len(page.words), -50.0)
        return -float(without.mean()), len(page.words)

    def _tag(self, document: Document) -> _Tagged:
        windows = self.inputs.windows(document)
        size = self.batch_size(self.inputs.longest + self._patches)
        pixels = self._page_pixels(document) if self._page_pixels else None
        words: dict[int, tuple[int, NDArray[np.float64]]] = {}
        for at in range(0, len(windows), size):
            some = windows[at : at + size]
            for window, logs in zip(some, self._logarithms(some, pixels), strict=True):
                length = int(window.tensors["input_ids"].shape[1])
                for word, first in zip(window.words, window.firsts, strict=True):
                    around = min(first, length - first)
                    if word not in words or words[word][0] < around:
                        words[word] = around, logs[first]
        every = tuple(sorted(words))
        rows = np.array([words[word][1] for word in every]).reshape(len(every), len(self.labels.names))
        require_finite_losses(bool(np.isfinite(rows).all()))
        return _Tagged(every, rows)

    @torch.inference_mode()
    def _logarithms(self, windows: Sequence[Window], pixels: Tensor | None) -> list[NDArray[np.float64]]:
        """Log-probabilities of labels at the tokens of windows, float64 (tokens, labels) each."""
        batch = collate([window.tensors for window in windows], self.inputs.pad, left=False)
        if pixels is not None:
            batch["pixel_values"] = pixels.expand(len(windows), -1, -1, -1)
        logits = self.logits({name: tensor.to(self._device) for name, tensor in batch.items()})
        return list(in_double(logits).log_softmax(dim=-1).cpu().numpy())

    def logits(self, inputs: dict[str, Any]) -> Tensor:
        """Logits of labels, float (batch, tokens, labels).

        Raises:
            AuditError: The network fails; what it says may quote the page, and is left out.
        """
        try:
            logits: Tensor = self.network(**inputs).logits
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
            raise AuditError(
                f"the model fails on a page ({type(error).__name__})",
                "Check that tokenizer and weights belong together, or use --device cpu",
            ) from error
        return logits

    @property
    def _patches(self) -> int:
        config = self.network.config
        return (int(config.input_size) // int(config.patch_size)) ** 2 + 1 if self._pixels else 0

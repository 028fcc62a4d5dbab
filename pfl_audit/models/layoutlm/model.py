"""LayoutLM as a DocumentModel: one pass over each window gives answer, confidence and loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from math import prod
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from pfl_audit.documents.document import Document, Query
from pfl_audit.models.layoutlm.checkpoint import load_qa
from pfl_audit.models.layoutlm.inputs import OVERLAP, InputBuilder, Passage
from pfl_audit.models.layoutlm.names import NAMES, Version
from pfl_audit.models.layoutlm.spans import LONGEST_ANSWER, best_span
from pfl_audit.models.memory import keep_freed_memory
from pfl_audit.models.opened import OpenedCheckpoint
from pfl_audit.models.pages_ahead import PagesAhead, page_name
from pfl_audit.models.protocol import QUESTIONS, Response
from pfl_audit.models.samples import require_finite_losses
from pfl_audit.models.weights import fingerprint_files

ADAPTER_VERSION = 2
"""Incremented whenever the adapter's results change, so that stored answers are not reused."""

_ATTENTION_BYTES = 192 << 20
_MAX_BATCH = 128
# Version 3 holds its relative biases, and the buckets they come from, beside the scores.
_SCORE_BYTES = {1: 4, 3: 16}

LogProbabilities = NDArray[np.float64]
"""Log-probabilities of start and end at a passage's positions, (2, positions)."""


class LayoutLmQa(OpenedCheckpoint):
    """A LayoutLM question-answering checkpoint on disk, ready to be audited.

    The answer is the page's words from the likeliest start to the likeliest end, at most LONGEST_ANSWER
    tokens apart; a page longer than the input is asked in windows, and the likeliest span of all windows
    is the answer. Its confidence is the product of the two probabilities, each a softmax over all positions
    of the window, patches included, as in training. A page without words is answered with nothing, and the
    confidence is that of CLS, which stands for "no answer".

    The loss is the mean of the cross-entropies of the true start and end (``InputBuilder.target``), as
    transformers computes it for one window without padding. Two tokens are scored, so ``tokens`` is 2.
    """

    capabilities = QUESTIONS

    def __init__(self, folder: Path, version: Version, device: str = "cpu") -> None:
        keep_freed_memory()
        loaded = load_qa(folder, version)
        self.family = NAMES[version]
        self.network = loaded.network.to(device)
        self.config = loaded.config
        self.inputs = InputBuilder(loaded.config, loaded.tokenizer)
        self._pixels = loaded.pixels
        self._page_pixels = (
            PagesAhead(loaded.pixels.of_document, 12 * prod(loaded.pixels.size)) if loaded.pixels else None
        )
        self._device = device
        notes = (
            "page image: " + ("seen" if self.config.sees else "not seen"),
            f"a page longer than {self.inputs.longest} tokens is asked in windows that overlap by {OVERLAP}",
            f"answers: spans of at most {LONGEST_ANSWER} tokens",
        )
        self.identify(folder, fingerprint_files(folder), ADAPTER_VERSION, notes)

    def prepare(self, documents: Sequence[Document]) -> None:
        """As of PreparingModel."""
        if self._page_pixels is not None:
            self._page_pixels.prepare(documents)

    def cost(self, query: Query) -> int:
        """Tokens of the longest window, and the page's patches."""
        return len(self.inputs.passages(query)[0].ids) + self.config.visual_tokens

    def batch_size(self, cost: int) -> int:
        """Largest batch that keeps the attention scores of one layer below a fixed number of bytes."""
        per_query = int(self.config.network.num_attention_heads) * cost * cost * _SCORE_BYTES[self.config.version]
        return max(1, min(_MAX_BATCH, _ATTENTION_BYTES // per_query))

    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Answer a batch; the response to a query does not depend on the others.

        Raises:
            UnanswerableError: A page's image cannot be read.
            AuditError: The model computes NaN or infinite losses.
        """
        passages = [self.inputs.passages(query) for query in queries]
        images = self._images([query.document for query in queries])
        rows = [(passage, row) for row, some in enumerate(passages) for passage in some]
        size = self.batch_size(max(map(self.cost, queries), default=1))
        log_probabilities: list[LogProbabilities] = []
        for at in range(0, len(rows), size):
            some = rows[at : at + size]
            pixels = torch.stack([images[row] for _, row in some]) if images else None
            log_probabilities += self._log_probabilities([passage for passage, _ in some], pixels)
        of = iter(log_probabilities)
        return [
            self._response(query, some, list(islice(of, len(some))))
            for query, some in zip(queries, passages, strict=True)
        ]

    def _response(
        self, query: Query, passages: Sequence[Passage], log_probabilities: Sequence[LogProbabilities]
    ) -> Response:
        answer, best = "", float(log_probabilities[0][:, 0].sum())
        spans = [
            (span, passage)
            for passage, logs in zip(passages, log_probabilities, strict=True)
            if (span := best_span(*logs[:, passage.offset : passage.stop])) is not None
        ]
        if spans:
            (first, last, best), passage = max(spans, key=lambda found: found[0][2])
            answer = " ".join(query.document.words[passage.words[first] : passage.words[last] + 1])
        target = self.inputs.target(query, passages)
        starts, ends = log_probabilities[target.passage]
        loss = -float(starts[target.start] + ends[target.end]) / 2
        require_finite_losses(bool(np.isfinite(loss) and np.isfinite(best)))
        return Response(answer, float(np.exp(best)), loss, 2)

    @torch.inference_mode()
    def _log_probabilities(self, passages: Sequence[Passage], pixels: Tensor | None) -> list[LogProbabilities]:
        """Log-probabilities of every passage's own positions, text before patches."""
        inputs = self.inputs.pad([passage.tensors() for passage in passages])
        mask = inputs["attention_mask"]
        inputs |= {"pixel_values": pixels} if pixels is not None else {}
        out = self.network(**{name: tensor.to(self._device) for name, tensor in inputs.items()})
        logits = torch.stack([out.start_logits, out.end_logits], dim=1).cpu().double()
        padding = torch.zeros(logits.shape[::2], dtype=torch.bool)
        padding[:, : mask.shape[1]] = mask == 0
        logs = logits.masked_fill(padding[:, None], -torch.inf).log_softmax(dim=-1)
        return [row[:, ~empty].numpy() for row, empty in zip(logs, padding, strict=True)]

    def span_loss(self, texts: Sequence[Mapping[str, Tensor]], pixels: Tensor) -> Tensor:
        """Mean over texts of the mean cross-entropy of start and end, float (); padding is in neither softmax.

        Args:
            texts: As ``InputBuilder.labelled`` has them.
            pixels: float (texts, 3, height, width), 0 to 1; without use if the model takes no image.
        """
        inputs = {name: tensor.to(pixels.device) for name, tensor in self.inputs.pad(texts).items()}
        if self._pixels is not None:
            inputs["pixel_values"] = self._pixels.normalised(pixels)
        out = self.network(**inputs)
        padding = inputs["attention_mask"] == 0
        losses = []
        for logits, name in ((out.start_logits, "start_positions"), (out.end_logits, "end_positions")):
            hidden = functional.pad(padding, (0, logits.shape[1] - padding.shape[1]))
            places = torch.stack([text[name] for text in texts]).to(pixels.device)
            losses.append(functional.cross_entropy(logits.masked_fill(hidden, -torch.inf), places))
        return (losses[0] + losses[1]) / 2

    def _images(self, documents: Sequence[Document]) -> list[Tensor]:
        """Pixels of each page, every image opened once; empty if the model takes no image."""
        if self._page_pixels is None:
            return []
        pages = {page_name(document): document for document in documents}
        pixels = {name: self._page_pixels(document) for name, document in pages.items()}
        return [pixels[page_name(document)] for document in documents]

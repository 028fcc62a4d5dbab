"""Training examples: queries encoded once, dealt out in an order that a seed fixes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pfl_audit.documents.document import Document, Query
from pfl_audit.files import sha256_json
from pfl_audit.models.vt5.inputs import InputBuilder, Text, collate, collate_labels
from pfl_audit.models.vt5.modeling import TextBatch, Vt5
from pfl_audit.progress import Progress
from pfl_audit.training.state import read_state, write_state

_POOL = 32
"""Batches that are sorted by length together, so that a batch holds similar lengths."""


@dataclass(frozen=True)
class Batch:
    """One step's queries: text, page features or pixels, labels."""

    text: TextBatch
    pages: Tensor
    labels: Tensor


class Examples:
    """A set of queries, encoded.

    Args:
        queries: To train on; the first accepted answer is the target.
        inputs: Of the model.
        network: Encodes each page once, where its DiT is frozen; else None, and pages are pixels.
        progress: Told of the pages.
        device: torch's name of the device that batches are put on; what is kept stays in memory.
        keep: File to keep the features in, so that a run that is cut encodes nothing twice.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        inputs: InputBuilder,
        network: Vt5 | None,
        progress: Progress,
        device: str = "cpu",
        keep: Path | None = None,
    ) -> None:
        self._texts: list[Text] = [inputs.text(query) for query in queries]
        self._labels = [inputs.answer(query.answers[0]) for query in queries]
        pages = {query.document.id: query.document for query in queries}
        rows = {page: row for row, page in enumerate(pages)}
        self._rows = [rows[query.document.id] for query in queries]
        self._pages = _encode_pages(list(pages.values()), inputs, network, progress, device, keep)
        self._quantised = network is None
        self._device = device

    def __len__(self) -> int:
        return len(self._texts)

    def length(self, index: int) -> int:
        """Text tokens of a query."""
        return len(self._texts[index].ids)

    @property
    def page_bytes(self) -> int:
        """Bytes that are kept of a page."""
        return self._pages[0].numel() * self._pages.element_size()

    def batch(self, indices: Sequence[int]) -> Batch:
        """Put the queries of these numbers together."""
        pages = self._pages[[self._rows[index] for index in indices]].to(self._device)
        return Batch(
            text=collate([self._texts[index] for index in indices]).to(self._device),
            pages=pages.to(torch.float32) / 127.5 - 1.0 if self._quantised else pages,
            labels=collate_labels([self._labels[index] for index in indices]).to(self._device),
        )

    def order(self, batch_size: int, seed: int, start: int = 0, among: int | None = None) -> Iterator[list[int]]:
        """Batches without end, as batch_order gives them, of the first ``among`` queries or of all."""
        return batch_order([len(text.ids) for text in self._texts[:among]], batch_size, seed, start)


def batch_order(lengths: Sequence[int], batch_size: int, seed: int, start: int = 0) -> Iterator[list[int]]:
    """Batches without end, epoch after epoch; the same seed gives the same, from any start on.

    Args:
        lengths: Text tokens of each query; a batch holds similar lengths.
        batch_size: Queries a batch.
        seed: Seed of the order.
        start: Number of the first batch that is wanted.

    Yields:
        Numbers of the queries of a batch.
    """
    tokens = np.array(lengths)
    per_epoch = -(-len(tokens) // batch_size)
    for epoch in range(start // per_epoch, 1 << 62):
        rng = np.random.default_rng([seed, epoch])
        shuffled = rng.permutation(len(tokens))
        pools = [shuffled[at : at + _POOL * batch_size] for at in range(0, len(tokens), _POOL * batch_size)]
        sorted_pools = np.concatenate([pool[np.argsort(tokens[pool], kind="stable")] for pool in pools])
        batches = [sorted_pools[at : at + batch_size] for at in range(0, len(tokens), batch_size)]
        dealt = [batches[index] for index in rng.permutation(len(batches))]
        for batch in dealt[start - epoch * per_epoch if start > epoch * per_epoch else 0 :]:
            yield batch.tolist()


@torch.no_grad()
def _encode_pages(
    pages: list[Document],
    inputs: InputBuilder,
    network: Vt5 | None,
    progress: Progress,
    device: str,
    keep: Path | None,
) -> Tensor:
    """DiT features of every page, or its pixels as bytes where the DiT is to be trained."""
    key = sha256_json([[page.digest for page in pages], _digest(network)]) if keep and network else ""
    if keep and network and (kept := read_state(keep, key)):
        return kept[1]["pages"]
    features: Tensor | None = None
    with progress.task("pages", len(pages)) as task, ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for at in range(0, len(pages), 16):
            pixels = torch.stack(list(pool.map(inputs.pixels, pages[at : at + 16])))
            if network is None:
                rows = ((pixels + 1.0) * 127.5).round().to(torch.uint8)
            else:
                rows = network.visual_embedding.encode(pixels.to(device)).cpu()
            if features is None:
                features = torch.empty((len(pages), *rows.shape[1:]), dtype=rows.dtype)
            features[at : at + len(rows)] = rows
            task.advance(len(rows))
    if features is None:
        raise ValueError("there is no page to encode")
    if keep and network:
        write_state(keep, key, {}, {"pages": features})
    return features


def _digest(network: Vt5) -> str:
    """SHA-256 of what turns pages into features."""
    digest = hashlib.sha256()
    for tensor in network.visual_embedding.image_model.state_dict().values():
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()

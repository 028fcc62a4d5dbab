"""What the trainable models of all question-answering families share: examples, validation, saved files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import safetensors.torch
import torch
from torch import Tensor, nn

from pfl_audit.documents.document import Document, Query
from pfl_audit.files import atomic_write, sha256_json, write_json
from pfl_audit.inputs import is_there, read_bytes
from pfl_audit.metrics.answers import accuracy, anls
from pfl_audit.models.protocol import Response
from pfl_audit.models.sentencepiece_file import LARGEST_TOKENIZER
from pfl_audit.models.tensor_record import read_state, write_state
from pfl_audit.progress import Progress

_PAGES_AT_ONCE = 16
_VALIDATION_BATCH = 32
_COPIED = (
    "config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "spiece.model", "sentencepiece.bpe.model", "vocab.txt", "vocab.json", "merges.txt",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Example:
    """A tokenised question with its answer.

    Attributes:
        tensors: Inputs and labels by name, without a batch dimension.
    """

    length: int
    tensors: Mapping[str, Tensor]


class QuestionEncoder(Protocol):
    """What a family brings to ``QuestionExamples``."""

    @property
    def page_encoder(self) -> nn.Module | None:
        """As TrainableModel.page_encoder."""

    def example(self, query: Query) -> Example:
        """Tokenise a query with its first accepted answer."""

    def page(self, document: Document) -> Tensor:
        """The pixels of a page as they are kept in memory, (3, height, width); (0,) if the model sees none."""

    def page_features(self, pixels: Tensor) -> Tensor:
        """Output of ``page_encoder`` for a stack of pages, on the CPU."""

    def batch_loss(self, examples: Sequence[Example], pages: Tensor) -> Tensor:
        """The training loss, float (), of examples and the stack of their pages or page features."""


class QuestionExamples:
    """Queries as training examples; every page is encoded once.

    Args:
        queries: Queries to train on; the first accepted answer is the target.
        cache: File in which page features are kept, so that a resumed run computes nothing twice.
    """

    def __init__(
        self, encoder: QuestionEncoder, queries: Sequence[Query], progress: Progress, cache: Path | None = None
    ) -> None:
        self._encoder = encoder
        self._examples = [encoder.example(query) for query in queries]
        pages = {query.document.id: query.document for query in queries}
        rows = {page: row for row, page in enumerate(pages)}
        self._rows = [rows[query.document.id] for query in queries]
        self._pages = _encode_pages(list(pages.values()), encoder, progress, cache)

    def __len__(self) -> int:
        return len(self._examples)

    @property
    def page_bytes(self) -> int:
        """Bytes held in memory for each page."""
        return self._pages[0].numel() * self._pages.element_size()

    def length(self, row: int) -> int:
        """Number of tokens of a query's text."""
        return self._examples[row].length

    def loss(self, rows: Sequence[int]) -> Tensor:
        """The training loss of the queries in these rows, float ()."""
        pages = self._pages[[self._rows[row] for row in rows]]
        return self._encoder.batch_loss([self._examples[row] for row in rows], pages)

    def reseed(self, seed: int) -> None:
        """Does nothing: nothing of an example is drawn at random."""


def _encode_pages(pages: list[Document], encoder: QuestionEncoder, progress: Progress, cache: Path | None) -> Tensor:
    """Features of every page if the visual encoder is frozen, else its pixels."""
    module = encoder.page_encoder
    key = sha256_json([[page.digest for page in pages], _digest(module)]) if cache and module else ""
    if cache and module and (kept := read_state(cache, key)):
        return kept[1]["pages"]
    found: Tensor | None = None
    with progress.task("pages", len(pages)) as task, ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for at in range(0, len(pages), _PAGES_AT_ONCE):
            rows = torch.stack(list(pool.map(encoder.page, pages[at : at + _PAGES_AT_ONCE])))
            if module is not None:
                with torch.no_grad():
                    rows = encoder.page_features(rows)
            if found is None:
                found = torch.empty((len(pages), *rows.shape[1:]), dtype=rows.dtype)
            found[at : at + len(rows)] = rows
            task.advance(len(rows))
    if found is None:
        raise ValueError("there is no page to encode")
    if cache and module:
        write_state(cache, key, {}, {"pages": found})
    return found


def _digest(module: nn.Module) -> str:
    """SHA-256 over the tensors of a module."""
    digest = hashlib.sha256()
    for tensor in module.state_dict().values():
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


class Responder(Protocol):
    """A network in evaluation mode that answers questions."""

    def cost(self, query: Query) -> int:
        """Number of input tokens of a query."""

    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Answer a batch, in order."""


def answer_scores(make_responder: Callable[[], Responder], queries: Sequence[Query]) -> dict[str, float]:
    """Mean ANLS and accuracy over queries; the state of torch's random generator is kept."""
    state = torch.get_rng_state()
    responder = make_responder()
    ordered = sorted(queries, key=responder.cost)
    scores: list[tuple[float, float]] = []
    for at in range(0, len(ordered), _VALIDATION_BATCH):
        batch = ordered[at : at + _VALIDATION_BATCH]
        for query, response in zip(batch, responder.respond(batch), strict=True):
            scores.append((anls(response.answer, query.answers), accuracy(response.answer, query.answers)))
    torch.set_rng_state(state)
    return {
        "anls": sum(score for score, _ in scores) / len(scores),
        "accuracy": sum(score for _, score in scores) / len(scores),
    }


def save_like(
    start: Path, folder: Path, tensors: Mapping[str, Tensor], records: Mapping[str, Any], *, half: bool
) -> None:
    """Write new weights beside the configuration and tokenizer of the checkpoint that they were trained from.

    Args:
        start: Checkpoint whose other files are copied.
        folder: Folder of the new checkpoint.
        tensors: The weights, under the names of the checkpoint.
        records: JSON files to write beside them, name to content.
        half: Save floating-point tensors as float16.

    Raises:
        AuditError: A file to copy is no regular file, or too large.
    """
    for name in _COPIED:
        if is_there(start / name):
            content = read_bytes(start / name, limit=LARGEST_TOKENIZER)
            with atomic_write(folder / name, private=False) as file:
                file.write(content)
    for name, record in records.items():
        write_json(folder / name, record, private=False)
    dtype = torch.float16 if half else torch.float32
    saved = {
        name: tensor.detach().to("cpu", dtype if tensor.is_floating_point() else tensor.dtype).contiguous()
        for name, tensor in tensors.items()
    }
    with atomic_write(folder / "model.safetensors", private=False) as file:
        file.write(safetensors.torch.save(saved, metadata={"format": "pt"}))

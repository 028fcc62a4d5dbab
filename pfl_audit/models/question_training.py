"""What the trainable models of all question-answering families share: examples, validation, saved files."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pfl_audit.documents.document import Document, Query
from pfl_audit.files import sha256_json
from pfl_audit.metrics.answers import accuracy, anls
from pfl_audit.models.checkpoint import TOKENIZER_FILES, write_checkpoint
from pfl_audit.models.page_store import PageStore
from pfl_audit.models.pixels import Normalisation
from pfl_audit.models.protocol import Response
from pfl_audit.models.samples import IGNORED
from pfl_audit.models.weights import BESIDE_CONFIG, CONFIG
from pfl_audit.progress import Progress

_PAGES_AT_ONCE = 16
_VALIDATION_BATCH = 32
_COPIED = (CONFIG, *BESIDE_CONFIG, *TOKENIZER_FILES)


@dataclass(frozen=True, eq=False)
class Example:
    """A tokenised question with its answer.

    Attributes:
        tensors: Inputs and labels by name, without a batch dimension.
    """

    length: int
    tensors: Mapping[str, Tensor]


class QuestionTraining(ABC):
    """A responder of one family as a TrainableModel.

    Attributes:
        network: The network, in evaluation mode until it is trained.
        inputs: Builder of the network's inputs.
        start: Checkpoint whose configuration and tokenizer are saved along.
    """

    network: Any
    inputs: Any
    start: Path
    points = False
    """It writes its answers."""

    @property
    def page_encoder(self) -> nn.Module | None:
        """As TrainableModel.page_encoder."""
        return None

    @abstractmethod
    def example(self, query: Query) -> Example:
        """Tokenise a query with its first accepted answer."""

    @abstractmethod
    def page(self, document: Document) -> Tensor:
        """The pixels of a page as they are kept in memory, (3, height, width); (0,) if the model sees none."""

    def page_features(self, pixels: Tensor) -> Tensor:
        """Output of ``page_encoder`` for a stack of pages, on the CPU."""
        return pixels

    @abstractmethod
    def batch_loss(self, examples: Sequence[Example], pages: Tensor) -> Tensor:
        """The training loss, float (), of examples and the stack of their pages or page features."""

    def targets(self, example: Example) -> int:
        """Number of targets of an example, over which ``batch_loss`` is a mean: labels, but for ignored ones."""
        return int((example.tensors["labels"] != IGNORED).sum())

    def part_loss(self, examples: Sequence[Example], part: Sequence[int], pages: Tensor) -> Tensor:
        """The share of the loss of a batch that some of its examples have, float (): as of DivisibleSet.

        Args:
            examples: All examples of the batch.
            pages: As of ``batch_loss``, of the examples of the part alone.
        """
        targets = [self.targets(example) for example in examples]
        share = sum(targets[at] for at in part) / sum(targets)
        if not share:
            return torch.zeros((), requires_grad=True)
        return share * self.batch_loss([examples[at] for at in part], pages)

    def can_share(self, trained: Sequence[str]) -> bool:
        """Whether ``owner_losses`` covers the model where the tensors of these names are trained."""
        return False

    def owner_losses(
        self,
        examples: Sequence[Sequence[Example]],
        pages: Tensor,
        tensors: Mapping[int, Sequence[Tensor]],
        generators: Sequence[torch.Generator],
    ) -> Tensor:
        """As of QuestionExamples, with the pages of all examples."""
        raise AssertionError("can_share is false")

    @abstractmethod
    def own_tensors(self) -> Mapping[str, Tensor]:
        """Tensors of the network under the names of the checkpoint, tied ones once."""

    @abstractmethod
    def cost(self, query: Query) -> int:
        """Number of input tokens of a query."""

    @abstractmethod
    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Answer a batch, in order."""

    def forget_pages(self) -> None:  # noqa: B027 - not every family keeps any
        """Drop page features of the network as it was."""

    def length(self, query: Query) -> int:
        """Number of tokens of a query's example."""
        return self.example(query).length

    def can_write(self, text: str) -> bool:
        """Whether the tokenizer can represent the text."""
        tokenizer = self.inputs.tokenizer
        return bool(tokenizer.decode(list(tokenizer.encode(text))) == text)

    def examples(self, queries: Sequence[Query], progress: Progress, cache: Path | None = None) -> QuestionExamples:
        """Tokenise queries, and encode or load their pages."""
        return QuestionExamples(self, queries, progress, cache)

    def validate(self, queries: Sequence[Query]) -> dict[str, float]:
        """Mean ANLS and accuracy over queries; the state of torch's random generator is kept."""
        state = torch.get_rng_state()
        self.network.eval()
        self.forget_pages()
        ordered = sorted(queries, key=self.cost)
        scores: list[tuple[float, float]] = []
        for at in range(0, len(ordered), _VALIDATION_BATCH):
            batch = ordered[at : at + _VALIDATION_BATCH]
            for query, response in zip(batch, self.respond(batch), strict=True):
                scores.append((anls(response.answer, query.answers), accuracy(response.answer, query.answers)))
        self.forget_pages()
        torch.set_rng_state(state)
        return {
            "anls": sum(score for score, _ in scores) / len(scores),
            "accuracy": sum(score for _, score in scores) / len(scores),
        }

    def save(self, folder: Path, records: Mapping[str, Any], *, half: bool) -> None:
        """Write the weights beside the configuration and tokenizer of the checkpoint that they were trained from."""
        dtype = torch.float16 if half else torch.float32
        write_checkpoint(folder, records, self.own_tensors(), source=self.start, copied=_COPIED, dtype=dtype)


class WordTraining(QuestionTraining):
    """A TrainableModel of words; what it sees pages with, if it sees them, is always trained.

    Attributes:
        _pixels: How a page becomes pixels, or None if the model sees no image.
    """

    _pixels: Any

    def is_frozen(self, name: str) -> bool:
        """The pooler, on which no output depends, and relative biases, which transformers gives no gradient."""
        return ".pooler." in name or ".rel_pos_" in name

    def page(self, document: Document) -> Tensor:
        """Pixels as uint8; (0,) if the model sees no image."""
        pixels: Normalisation | None = self._pixels
        return torch.empty(0) if pixels is None else pixels.plain(document.image.open() if document.image else None)


class QuestionExamples:
    """Queries as training examples; every page is encoded once.

    Args:
        queries: Queries to train on; the first accepted answer is the target.
        cache: As of EncodedPages.
    """

    def __init__(
        self, model: QuestionTraining, queries: Sequence[Query], progress: Progress, cache: Path | None = None
    ) -> None:
        self._model = model
        self._examples = [model.example(query) for query in queries]
        self._pages = EncodedPages(model, queries, progress, cache)

    def __len__(self) -> int:
        return len(self._examples)

    @property
    def page_bytes(self) -> int:
        """Bytes held in memory for each page."""
        return self._pages.page_bytes

    def length(self, row: int) -> int:
        """Number of tokens of a query's text."""
        return self._examples[row].length

    def loss(self, rows: Sequence[int]) -> Tensor:
        """The training loss of the queries in these rows, float ()."""
        return self._model.batch_loss([self._examples[row] for row in rows], self._pages(rows))

    def part_loss(self, rows: Sequence[int], part: Sequence[int]) -> Tensor:
        """As of DivisibleSet."""
        pages = self._pages([rows[at] for at in part])
        return self._model.part_loss([self._examples[row] for row in rows], part, pages)

    def reseed(self, seed: int) -> None:
        """Does nothing: nothing of an example is drawn at random."""

    def can_share(self, trained: Sequence[str]) -> bool:
        """Whether examples of several owners can share a pass, as of SharedPass."""
        return self._model.can_share(trained)

    def owner_losses(
        self,
        rows: Sequence[Sequence[int]],
        tensors: Mapping[int, Sequence[Tensor]],
        generators: Sequence[torch.Generator],
    ) -> Tensor:
        """The loss of the batch of every owner, float (owners,), as of SharedPass."""
        examples = [[self._examples[row] for row in some] for some in rows]
        pages = self._pages([row for some in rows for row in some])
        return self._model.owner_losses(examples, pages, tensors, generators)


class EncodedPages:
    """Pages of queries, each encoded once.

    Args:
        cache: File for page features, so that they take no memory and a resumed run computes nothing twice; None to
            hold them in memory. Pages that no frozen encoder encodes are held in memory.
    """

    def __init__(
        self, model: QuestionTraining, queries: Sequence[Query], progress: Progress, cache: Path | None = None
    ) -> None:
        pages = {query.document.id: query.document for query in queries}
        rows = {page: row for row, page in enumerate(pages)}
        self._rows = [rows[query.document.id] for query in queries]
        self._pages = _encode_pages(list(pages.values()), model, progress, cache)

    @property
    def page_bytes(self) -> int:
        """Bytes held in memory for each page."""
        return self._pages[0].nbytes if isinstance(self._pages, Tensor) else 0

    def __call__(self, rows: Sequence[int]) -> Tensor:
        """Pages or page features of the queries in these rows, one each."""
        return self._pages[[self._rows[row] for row in rows]]


def _encode_pages(
    pages: list[Document], model: QuestionTraining, progress: Progress, cache: Path | None
) -> Tensor | PageStore:
    """Features of every page if the visual encoder is frozen, else its pixels."""
    if not pages:
        raise ValueError("there is no page to encode")
    module = model.page_encoder
    if cache is None or module is None:
        found: Tensor | None = None
        for at, rows in _blocks(pages, model, progress):
            if found is None:
                found = torch.empty((len(pages), *rows.shape[1:]), dtype=rows.dtype)
            found[at : at + len(rows)] = rows
        if found is None:
            raise AssertionError("there is a page")
        return found
    store = PageStore(cache, sha256_json([[page.digest for page in pages], _digest(module)]))
    for _, rows in _blocks(pages, model, progress, store.rows):
        store.append(rows)
    return store


def _blocks(
    pages: list[Document], model: QuestionTraining, progress: Progress, done: int = 0
) -> Iterator[tuple[int, Tensor]]:
    """Pages or page features block by block, with the number of each block's first page."""
    if done >= len(pages):
        return
    with progress.task("pages", len(pages), done) as task, ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for at in range(done, len(pages), _PAGES_AT_ONCE):
            rows = torch.stack(list(pool.map(model.page, pages[at : at + _PAGES_AT_ONCE])))
            if model.page_encoder is not None:
                with torch.no_grad():
                    rows = model.page_features(rows)
            yield at, rows
            task.advance(len(rows))


def _digest(module: nn.Module) -> str:
    """SHA-256 over the tensors of a module."""
    digest = hashlib.sha256()
    for tensor in module.state_dict().values():
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()

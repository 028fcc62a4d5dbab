"""Self-pretraining of a question-answering model as a TrainableModel: its examples are pages, never questions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from pfl_audit.documents.document import Document, Query
from pfl_audit.errors import UsageError
from pfl_audit.models.pretraining_task import Form, Task
from pfl_audit.models.question_training import EncodedPages, Example, QuestionTraining
from pfl_audit.models.training_protocol import AdapterLayout, QuestionModel
from pfl_audit.progress import Progress, Silent

_FIXED = 0
"""Seed of masks that stay the same."""
_HELD_OUT_BATCH = 8


class DenoisingModel(QuestionTraining):
    """A question-answering model under training that can also restore what is masked of a page."""

    @abstractmethod
    def add_markers(self) -> None:
        """Add the tokens of self-pretraining, unless the network has them."""

    @abstractmethod
    def train_markers(self) -> None:
        """Train the embeddings of these tokens by themselves, unless the whole embedding is trained."""

    @abstractmethod
    def denoising(self, document: Document, task: Task, form: Form, rng: np.random.Generator) -> Example:
        """A page with masked units, and what was masked."""


class SelfPretraining:
    """A model whose training examples are its items' pages; every step takes the mean of the losses of all tasks.

    Trained by the same loops as questions are, central and federated, with and without privacy.

    Args:
        model: Gets the tokens of self-pretraining if it lacks them.
        tasks: Tasks, at least one.
        form: Form of the examples.

    Raises:
        UsageError: The model's family has no self-pretraining, or there is no task.
    """

    points = False
    """It takes no question."""

    def __init__(self, model: QuestionModel, tasks: Sequence[Task], form: Form = Form.PAPER) -> None:
        if not isinstance(model, DenoisingModel):
            raise UsageError(
                "models of this family have no self-pretraining", "Leave out --pretrain, or begin with a VT5"
            )
        if not tasks:
            raise UsageError("there is no task of self-pretraining", f"Choose some of: {', '.join(Task)}")
        model.add_markers()
        self._model = model
        self.tasks, self.form = tuple(dict.fromkeys(tasks)), form
        self.network: nn.Module = model.network
        self.adapters: AdapterLayout | None = model.adapters
        self.page_encoder = model.page_encoder
        # What is trained is the model's own, and a checkpoint is the model's with the added tokens.
        self.is_frozen, self.train_markers, self.save = model.is_frozen, model.train_markers, model.save

    def length(self, query: Query) -> int:
        """Number of tokens of the page's input in the first task; another draw of masks changes it a little."""
        return self._example(query, self.tasks[0], np.random.default_rng(_FIXED)).length

    def can_write(self, text: str) -> bool:
        """False: no answer is trained."""
        return False

    def examples(self, queries: Sequence[Query], progress: Progress, cache: Path | None = None) -> DenoisingExamples:
        """The pages of queries, one row a query."""
        pages = EncodedPages(self._model, queries, progress, cache)
        return DenoisingExamples(self, queries, [self.length(query) for query in queries], pages)

    def loss(self, queries: Sequence[Query], pages: Tensor, task: Task, rng: np.random.Generator) -> Tensor:
        """Mean cross-entropy of the target tokens of a batch in one task, float ()."""
        return self._model.batch_loss([self._example(query, task, rng) for query in queries], pages)

    def part_loss(
        self, queries: Sequence[Query], part: Sequence[int], pages: Tensor, task: Task, rng: np.random.Generator
    ) -> Tensor:
        """The share of ``loss`` that some queries have, float (); ``pages`` are theirs alone."""
        return self._model.part_loss([self._example(query, task, rng) for query in queries], part, pages)

    def validate(self, queries: Sequence[Query]) -> dict[str, float]:
        """Mean loss on held-out pages by task, always with the same masks, in evaluation mode."""
        self.network.eval()
        queries, rng = one_a_page(queries), np.random.default_rng(_FIXED)
        pages, totals = EncodedPages(self._model, queries, Silent()), dict.fromkeys(self.tasks, 0.0)
        with torch.no_grad():
            for at in range(0, len(queries), _HELD_OUT_BATCH):
                rows = range(at, min(at + _HELD_OUT_BATCH, len(queries)))
                for task in self.tasks:
                    loss = self.loss([queries[row] for row in rows], pages(rows), task, rng)
                    totals[task] += len(rows) * float(loss)
        return {f"loss_{task}": total / len(queries) for task, total in totals.items()}

    def _example(self, query: Query, task: Task, rng: np.random.Generator) -> Example:
        return self._model.denoising(query.document, task, self.form, rng)


class DenoisingExamples:
    """Pages as training examples; what is masked is drawn anew each time.

    Args:
        lengths: Number of input tokens of each query's page, for batches of similar lengths.
    """

    def __init__(
        self, model: SelfPretraining, queries: Sequence[Query], lengths: Sequence[int], pages: EncodedPages
    ) -> None:
        self._model, self._queries, self._lengths, self._pages = model, queries, lengths, pages
        self.reseed(_FIXED)

    def __len__(self) -> int:
        return len(self._queries)

    @property
    def page_bytes(self) -> int:
        """Bytes held in memory for each page."""
        return self._pages.page_bytes

    def length(self, row: int) -> int:
        """Number of tokens of a page's input."""
        return self._lengths[row]

    def loss(self, rows: Sequence[int]) -> Tensor:
        """Mean over the tasks of the loss of the pages in these rows, float ()."""
        queries, pages = [self._queries[row] for row in rows], self._pages(rows)
        return torch.stack([self._model.loss(queries, pages, task, self._rng) for task in self._model.tasks]).mean()

    def part_loss(self, rows: Sequence[int], part: Sequence[int]) -> Tensor:
        """As of DivisibleSet."""
        queries, pages = [self._queries[row] for row in rows], self._pages([rows[at] for at in part])
        shares = [self._model.part_loss(queries, part, pages, task, self._rng) for task in self._model.tasks]
        return torch.stack(shares).mean()

    def reseed(self, seed: int) -> None:
        """Seed what is masked."""
        self._rng = np.random.default_rng(seed)


def one_a_page(queries: Sequence[Query]) -> list[Query]:
    """The first query of each page, in order."""
    first: dict[str, Query] = {}
    for query in queries:
        first.setdefault(query.document.id, query)
    return list(first.values())

"""A token tagger as a TrainableModel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from pfl_audit.documents.document import Document, Query
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.auto.batch import collate
from pfl_audit.models.field_keys import normal_key
from pfl_audit.models.field_training import FieldTraining
from pfl_audit.models.layoutlm.spans import find_answers
from pfl_audit.models.question_training import Example, WordTraining
from pfl_audit.models.samples import IGNORED
from pfl_audit.models.tagger.model import TokenTagger
from pfl_audit.models.training_protocol import AdapterLayout


class TrainableTagger(TokenTagger, WordTraining, FieldTraining):
    """A token tagger under training; everything that the head depends on is trained.

    The first tokens of words have labels: those of the fields of the page, each in the first place on the page that no
    other field has, and O. The example of a query is the window that has its own answer, else the first.
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        super().__init__(folder, device)
        self.start = folder
        self.network.requires_grad_(True)
        names = {name.rsplit(".", 1)[-1] for name, _ in self.network.named_modules()}
        self.adapters = (
            AdapterLayout(self.network.base_model_prefix, ("query", "value"), ("classifier",))
            if {"query", "value", "classifier"} <= names
            else None
        )
        outside = [number for number, (_, key) in enumerate(self.labels.parts) if not key]
        if not outside:
            raise AuditError(f"{folder}: id2label has no label O", "Add it, and an output of the head")
        self._outside = outside[0]

    def page_example(self, query: Query, fields: Sequence[Query]) -> Example:
        """The window of a page that has a query's answer, with the labels of its fields."""
        document = query.document
        labels, places = self._page_labels(document, fields)
        windows = self.inputs.windows(document)
        if not windows:
            raise AuditError(f"page {document.id} has no words to label", "Leave it out of the training part")
        wanted = places.get(query.id)
        window = next((one for one in windows if wanted in one.words), windows[0])
        row = torch.full_like(window.tensors["input_ids"], IGNORED)
        for word, first in zip(window.words, window.firsts, strict=True):
            row[0, first] = labels[word]
        return Example(row.shape[1], {**window.tensors, "labels": row})

    def batch_loss(self, examples: Sequence[Example], pages: Tensor) -> Tensor:
        """Mean cross-entropy over the labelled tokens of the batch, as transformers takes it."""
        labels = torch.full((len(examples), max(example.length for example in examples)), IGNORED)
        for row, example in zip(labels, examples, strict=True):
            row[: example.length] = example.tensors["labels"][0]
        built = [{name: value for name, value in one.tensors.items() if name != "labels"} for one in examples]
        batch = collate(built, self.inputs.pad, left=False)
        inputs = {name: tensor.to(self._device) for name, tensor in batch.items()}
        if self._pixels is not None:
            inputs["pixel_values"] = self._pixels.normalised(pages.to(self._device).float() / 255)
        logits = self.logits(inputs)
        return functional.cross_entropy(logits.transpose(1, 2), labels.to(self._device), ignore_index=IGNORED)

    def own_tensors(self) -> Mapping[str, Tensor]:
        """The network's tensors, tied ones once."""
        first = {tensor.data_ptr(): name for name, tensor in reversed(self.network.state_dict().items())}
        return {name: tensor for name, tensor in self.network.state_dict().items() if first[tensor.data_ptr()] == name}

    def _page_labels(self, document: Document, queries: Sequence[Query]) -> tuple[list[int], dict[str, int]]:
        """Label of each word, and the first word of each query's field by the query's id."""
        labels, places = [self._outside] * len(document.words), dict[str, int]()
        taken: set[int] = set()
        for query in queries:
            for first, last in find_answers(document.words, query.answers[0]):
                field = range(first, last + 1)
                if taken.isdisjoint(field):
                    labels[first : last + 1] = self.labels.true(normal_key(query.key), len(field))
                    taken.update(field)
                    places[query.id] = first
                    break
        return labels, places


def open_training(folder: Path, *, device: str = "cpu", train_visual: bool = False) -> TrainableTagger:
    """Open a checkpoint folder for training.

    Raises:
        UsageError: The visual encoder is to be trained, and there is none.
    """
    if train_visual:
        raise UsageError(
            "a token tagger has no visual encoder that could be frozen: what it sees with is always trained",
            "Leave out --train-visual",
        )
    return TrainableTagger(folder, device)

"""LayoutLM question answering as a TrainableModel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from pfl_audit.documents.document import Document, Query
from pfl_audit.errors import UsageError
from pfl_audit.models.layoutlm.family import Version
from pfl_audit.models.layoutlm.model import LayoutLmQa
from pfl_audit.models.question_training import Example, QuestionExamples, answer_scores, save_like
from pfl_audit.models.training_protocol import AdapterLayout
from pfl_audit.progress import Progress

_INPUTS = ("input_ids", "bbox", "token_type_ids", "attention_mask")


class TrainableLayoutLm(LayoutLmQa):
    """A LayoutLM with a question-answering head under training; everything that the head depends on is trained.

    A query's example is the window of its page that holds the first accepted answer; an answer that no window holds
    whole is trained as the token CLS, "no answer". The loss of a batch is the mean of its examples' losses: padding
    takes no part in their softmaxes.
    """

    page_encoder: nn.Module | None = None

    def __init__(self, folder: Path, version: Version, device: str = "cpu") -> None:
        super().__init__(folder, version, device)
        self.adapters = AdapterLayout(self.network.base_model_prefix, ("query", "value"), ("qa_outputs",))

    def is_frozen(self, name: str) -> bool:
        """The pooler, on which no answer depends, and relative biases, which transformers gives no gradient."""
        return ".pooler." in name or ".rel_pos_" in name

    def length(self, query: Query) -> int:
        """Number of tokens of the window that is trained on."""
        return self.example(query).length

    def can_write(self, text: str) -> bool:
        """It points to words of the page and writes nothing."""
        return False

    def examples(self, queries: Sequence[Query], progress: Progress, cache: Path | None = None) -> QuestionExamples:
        """Tokenise queries and load their pages."""
        return QuestionExamples(self, queries, progress, cache)

    def example(self, query: Query) -> Example:
        """Question and window of the page, with the place of the answer."""
        passages = self.inputs.passages(query)
        target = self.inputs.target(query, passages)
        batch = self.inputs.collate([passages[target.passage]])
        rows = (batch.ids[0], batch.boxes[0], batch.types[0], batch.mask[0])
        places = {"start": torch.tensor(target.start), "end": torch.tensor(target.end)}
        return Example(batch.ids.shape[1], dict(zip(_INPUTS, rows, strict=True)) | places)

    def page(self, document: Document) -> Tensor:
        """Pixels as uint8; (0,) if the model sees no image."""
        if self._pixels is None:
            return torch.empty(0)
        plain = replace(self._pixels, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
        return (255 * plain.pixels(document.image.open() if document.image else None)).round().to(torch.uint8)

    def page_features(self, pixels: Tensor) -> Tensor:
        """Nothing is computed ahead."""
        return pixels

    def batch_loss(self, examples: Sequence[Example], pages: Tensor) -> Tensor:
        """The mean over the examples of the mean cross-entropy of start and end."""
        fillers = (int(self.config.network.pad_token_id), 0, 0, 0)
        given = {
            name: pad_sequence([example.tensors[name] for example in examples], True, filler).to(self._device)
            for name, filler in zip(_INPUTS, fillers, strict=True)
        }
        if self._pixels is not None:
            settings = (self._pixels.mean, self._pixels.std)
            mean, std = (torch.tensor(value, device=self._device).view(3, 1, 1) for value in settings)
            given["pixel_values"] = (pages.to(self._device).float() / 255 - mean) / std
        out = self.network(**given)
        padding = given["attention_mask"] == 0
        losses = []
        for logits, name in ((out.start_logits, "start"), (out.end_logits, "end")):
            hidden = functional.pad(padding, (0, logits.shape[1] - padding.shape[1]))
            places = torch.stack([example.tensors[name] for example in examples]).to(self._device)
            losses.append(functional.cross_entropy(logits.masked_fill(hidden, -torch.inf), places))
        return (losses[0] + losses[1]) / 2

    def validate(self, queries: Sequence[Query]) -> dict[str, float]:
        """Mean ANLS and accuracy."""
        return answer_scores(lambda: self, queries)

    def save(self, folder: Path, records: Mapping[str, Any], *, half: bool) -> None:
        """Write the checkpoint as transformers names its tensors."""
        save_like(self._folder, folder, self.network.state_dict(), records, half=half)


def open_training(
    folder: Path, version: Version, *, device: str = "cpu", train_visual: bool = False
) -> TrainableLayoutLm:
    """Open a checkpoint folder for training.

    Raises:
        UsageError: The visual encoder is to be trained, and there is none.
    """
    if train_visual:
        raise UsageError(
            "a LayoutLM has no visual encoder that could be frozen: what it sees with is always trained",
            "Leave out --train-visual",
        )
    return TrainableLayoutLm(folder, version, device)

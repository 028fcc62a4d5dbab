"""Donut as a TrainableModel."""

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
from pfl_audit.models.donut.checkpoint import LoadedDonut, load_donut
from pfl_audit.models.donut.inputs import IGNORED, InputBuilder
from pfl_audit.models.donut.model import DonutResponder
from pfl_audit.models.donut.network import own_tensors, page_features
from pfl_audit.models.question_training import Example, QuestionExamples, answer_scores, save_like
from pfl_audit.models.training_protocol import AdapterLayout
from pfl_audit.progress import Progress


class TrainableDonut:
    """A Donut under training. By default its Swin encoder is frozen, and encodes each page once.

    Args:
        loaded: The network, put into evaluation mode, with tokenizer and pixel settings.
        start: Checkpoint whose configuration and tokenizer are saved along.
        train_visual: Train the encoder as well, as Donut's own training does.
    """

    adapters = AdapterLayout("decoder", ("q_proj", "v_proj"))

    def __init__(self, loaded: LoadedDonut, start: Path, device: str = "cpu", *, train_visual: bool = False) -> None:
        self.network = loaded.network.to(device).eval()
        self.inputs = InputBuilder(loaded.config, loaded.tokenizer, loaded.pixels)
        self._loaded, self._start, self._device, self._train_visual = loaded, start, device, train_visual

    @property
    def page_encoder(self) -> nn.Module | None:
        """The Swin encoder where it is frozen."""
        encoder: nn.Module = self.network.encoder
        return None if self._train_visual else encoder

    def is_frozen(self, name: str) -> bool:
        """The encoder, unless it is trained."""
        return name.startswith("encoder.") and not self._train_visual

    def length(self, query: Query) -> int:
        """Number of tokens of prompt and answer."""
        return len(self.inputs.query(query).ids)

    def can_write(self, text: str) -> bool:
        """Whether the tokenizer can represent the text."""
        tokenizer = self._loaded.tokenizer
        return tokenizer.decode(list(tokenizer.encode(text))) == text

    def examples(self, queries: Sequence[Query], progress: Progress, cache: Path | None = None) -> QuestionExamples:
        """Tokenise queries and encode their pages."""
        return QuestionExamples(self, queries, progress, cache)

    def example(self, query: Query) -> Example:
        """Prompt and answer of a query, and the labels."""
        return self.prompt(query.question, query.answers[0])

    def prompt(self, question: str, answer: str) -> Example:
        """Prompt and answer, and the labels."""
        made = self.inputs.example(question, answer)
        return Example(len(made.ids), {"ids": torch.tensor(made.ids), "labels": torch.tensor(made.labels)})

    def page(self, document: Document) -> Tensor:
        """Pixels, float32 and normalised; as uint8 where the encoder is trained, since every page is kept."""
        if not self._train_visual:
            return self.inputs.pixels(document)
        plain = replace(self._loaded.pixels, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
        pixels = plain.pixels(document.image.open() if document.image else None)
        return (255 * pixels).round().to(torch.uint8)

    def page_features(self, pixels: Tensor) -> Tensor:
        """Encoder output of pages, float (pages, visual tokens, encoder width)."""
        features: Tensor = self.network.encoder(pixel_values=pixels.to(self._device)).last_hidden_state
        return features.cpu()

    def batch_loss(self, examples: Sequence[Example], pages: Tensor) -> Tensor:
        """Mean cross-entropy over the answer tokens of the batch, as transformers takes it."""
        ids, labels = (
            pad_sequence([example.tensors[name] for example in examples], True, filler).to(self._device)
            for name, filler in (("ids", int(self._loaded.config.decoder.pad_token_id)), ("labels", IGNORED))
        )
        pages = pages.to(self._device)
        if self._train_visual:
            settings = self._loaded.pixels
            mean, std = (
                torch.tensor(value, device=self._device).view(3, 1, 1) for value in (settings.mean, settings.std)
            )
            pages = page_features(self.network, (pages.float() / 255 - mean) / std)
        elif hasattr(self.network, "enc_to_dec_proj"):
            pages = self.network.enc_to_dec_proj(pages)
        logits = self.network.decoder(input_ids=ids, encoder_hidden_states=pages, use_cache=False).logits
        return functional.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED)

    def validate(self, queries: Sequence[Query]) -> dict[str, float]:
        """Mean ANLS and accuracy."""
        return answer_scores(lambda: DonutResponder(self._loaded, self._device), queries)

    def save(self, folder: Path, records: Mapping[str, Any], *, half: bool) -> None:
        """Write the checkpoint as transformers names its tensors."""
        save_like(self._start, folder, own_tensors(self.network), records, half=half)


def open_training(folder: Path, *, device: str = "cpu", train_visual: bool = False) -> TrainableDonut:
    """Open a checkpoint folder for training."""
    return TrainableDonut(load_donut(folder), folder, device, train_visual=train_visual)

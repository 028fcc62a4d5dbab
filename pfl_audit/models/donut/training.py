"""Donut as a TrainableModel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor, nn
from torch.nn import functional

from pfl_audit.documents.document import Document, Query
from pfl_audit.models.donut.checkpoint import LoadedDonut, load_donut
from pfl_audit.models.donut.model import DonutResponder
from pfl_audit.models.donut.network import own_tensors, page_features
from pfl_audit.models.donut.writer import DonutWriter
from pfl_audit.models.question_training import Example, QuestionTraining
from pfl_audit.models.samples import IGNORED
from pfl_audit.models.training_protocol import AdapterLayout


class DonutTraining(DonutWriter, QuestionTraining):
    """What all Donuts under training share. By default the Swin encoder is frozen, and encodes each page once."""

    adapters = AdapterLayout("decoder", ("q_proj", "v_proj"))
    _train_visual: bool

    @property
    def page_encoder(self) -> nn.Module | None:
        """The Swin encoder where it is frozen."""
        encoder: nn.Module = self.network.encoder
        return None if self._train_visual else encoder

    def is_frozen(self, name: str) -> bool:
        """The encoder, unless it is trained."""
        return name.startswith("encoder.") and not self._train_visual

    def page(self, document: Document) -> Tensor:
        """Pixels, float32 and normalised; as uint8 where the encoder is trained, since every page is kept."""
        image = document.image.open() if document.image else None
        return self._pixels.plain(image) if self._train_visual else self._pixels.pixels(image)

    def page_features(self, pixels: Tensor) -> Tensor:
        """Encoder output of pages, float (pages, visual tokens, encoder width)."""
        features: Tensor = self.network.encoder(pixel_values=pixels.to(self._device)).last_hidden_state
        return features.cpu()

    def batch_loss(self, examples: Sequence[Example], pages: Tensor) -> Tensor:
        """Mean cross-entropy over the answer tokens of the batch, as transformers takes it."""
        pages = pages.to(self._device)
        if self._train_visual:
            pages = page_features(self.network, self._pixels.normalised(pages.float() / 255))
        elif hasattr(self.network, "enc_to_dec_proj"):
            pages = self.network.enc_to_dec_proj(pages)
        logits, labels = self.logits([example.tensors for example in examples], pages)
        return functional.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED)

    def own_tensors(self) -> Mapping[str, Tensor]:
        """The network's tensors, tied ones once, without computed ones."""
        return own_tensors(self.network)


class TrainableDonut(DonutResponder, DonutTraining):
    """A Donut that answers questions under training.

    Args:
        loaded: The network, put into evaluation mode, with tokenizer and pixel settings.
        start: Checkpoint whose configuration and tokenizer are saved along.
        train_visual: Train the encoder as well, as Donut's own training does.
    """

    def __init__(self, loaded: LoadedDonut, start: Path, device: str = "cpu", *, train_visual: bool = False) -> None:
        super().__init__(loaded, device)
        self.start, self._train_visual = start, train_visual

    def example(self, query: Query) -> Example:
        """Prompt and answer of a query, and the labels."""
        return self.prompt(query.question, query.answers[0])

    def prompt(self, question: str, answer: str) -> Example:
        """Prompt and answer, and the labels."""
        made = self.inputs.example(question, answer)
        return Example(len(made.ids), made.tensors())


def open_training(folder: Path, *, device: str = "cpu", train_visual: bool = False) -> TrainableDonut:
    """Open a checkpoint folder for training."""
    return TrainableDonut(load_donut(folder), folder, device, train_visual=train_visual)

"""VT5 as a TrainableModel (privacy-aware-docvqa, section 7; adapters as in pfl-docvqa-competition, 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pfl_audit.documents.document import Document, Query
from pfl_audit.models.pretraining import DenoisingModel
from pfl_audit.models.pretraining_task import Form, Task
from pfl_audit.models.question_training import Example
from pfl_audit.models.training_protocol import AdapterLayout
from pfl_audit.models.vt5.checkpoint import LoadedVt5, load_vt5, own_tensors, save_vt5
from pfl_audit.models.vt5.denoising import denoised
from pfl_audit.models.vt5.inputs import Text, collate, collate_labels
from pfl_audit.models.vt5.marker_rows import MarkerRows
from pfl_audit.models.vt5.markers import add_markers
from pfl_audit.models.vt5.model import Vt5Responder
from pfl_audit.models.vt5.packed import Owners, can_pack, token_losses

_VISUAL = "visual_embedding.image_model."


class TrainableVt5(Vt5Responder, DenoisingModel):
    """A VT5 under training. By default its DiT is frozen, as in the reference, and encodes each page once.

    Args:
        loaded: The network, put into evaluation mode, and its tokenizer.
        tokenizer_files: Folder whose tokenizer files are saved along.
        train_visual: Train the DiT as well.
    """

    adapters = AdapterLayout(
        "language_backbone", ("q", "v"), ("spatial_embedding", "visual_embedding.visual_emb_matcher")
    )

    def __init__(
        self, loaded: LoadedVt5, tokenizer_files: Path, device: str = "cpu", *, train_visual: bool = False
    ) -> None:
        super().__init__(loaded.network, loaded.tokenizer, device)
        self.start, self._train_visual = tokenizer_files, train_visual
        self._rows: MarkerRows | None = None

    @property
    def page_encoder(self) -> nn.Module | None:
        """The DiT where it is frozen."""
        return None if self._train_visual else self.network.visual_embedding.image_model

    def is_frozen(self, name: str) -> bool:
        """The DiT, or of a trained one the parts that VT5 does not use: its mask token and its pooler."""
        return _VISUAL in name and (not self._train_visual or name.endswith("mask_token") or ".pooler." in name)

    def example(self, query: Query) -> Example:
        """Text, boxes and labels of a query."""
        text, labels = self.inputs.text(query), self.inputs.answer(query.answers[0])
        tensors = {"ids": torch.from_numpy(text.ids), "boxes": torch.from_numpy(text.boxes), "labels": labels}
        return Example(len(text.ids), tensors)

    def add_markers(self) -> None:
        """Add the tokens of self-pretraining, unless the network has them."""
        add_markers(self.network)
        self.inputs.config = self.network.config

    def train_markers(self) -> None:
        """Train the rows of the added tokens by themselves, unless the embedding is trained."""
        if self._rows is None and not self.network.language_backbone.shared.weight.requires_grad:
            self._rows = MarkerRows(self.network)

    def denoising(self, document: Document, task: Task, form: Form, rng: np.random.Generator) -> Example:
        """A page with masked units, and what was masked."""
        return denoised(self.inputs, document, task, form, rng)

    def page(self, document: Document) -> Tensor:
        """Pixels, float32 -1 to 1; as uint8 where the DiT is trained, since every page is kept."""
        pixels = self.inputs.pixels(document)
        return ((pixels + 1.0) * 127.5).round().to(torch.uint8) if self._train_visual else pixels

    def page_features(self, pixels: Tensor) -> Tensor:
        """DiT features of pages, float (pages, patches + 1, DiT width)."""
        return self.network.visual_embedding.encode(pixels.to(self._device)).cpu()

    def batch_loss(self, examples: Sequence[Example], pages: Tensor) -> Tensor:
        """Mean cross-entropy over the answer tokens of the batch."""
        if not can_pack(self.network):
            return self.padded_loss(examples, pages)
        return self.token_losses(examples, pages).mean()

    def token_losses(self, examples: Sequence[Example], pages: Tensor, owners: Owners | None = None) -> Tensor:
        """Cross-entropy of every answer token of all examples, float (tokens,); for networks that can_pack."""
        ids, boxes, labels = ([one.tensors[name] for one in examples] for name in ("ids", "boxes", "labels"))
        return token_losses(self.network, ids, boxes, self._encoded(pages), labels, owners)

    def can_share(self, trained: Sequence[str]) -> bool:
        """Adapters alone, in a network that can be packed: they are what ``Owners`` covers."""
        return can_pack(self.network) and all(".lora_A." in name or ".lora_B." in name for name in trained)

    def owner_losses(
        self,
        examples: Sequence[Sequence[Example]],
        pages: Tensor,
        tensors: Mapping[int, Sequence[Tensor]],
        generators: Sequence[torch.Generator],
    ) -> Tensor:
        """Mean cross-entropy over the answer tokens of every owner, float (owners,)."""
        owners = Owners([len(some) for some in examples], tensors, generators)
        losses = self.token_losses([one for some in examples for one in some], pages, owners)
        answers = [sum(len(one.tensors["labels"]) for one in some) for some in examples]
        return torch.stack([part.mean() for part in torch.split(losses, answers)])

    def padded_loss(self, examples: Sequence[Example], pages: Tensor) -> Tensor:
        """``batch_loss`` by transformers' own T5 on a padded batch."""
        tensors = [example.tensors for example in examples]
        text = collate([Text(one["ids"].numpy(), one["boxes"].numpy()) for one in tensors]).to(self._device)
        labels = collate_labels([one["labels"] for one in tensors]).to(self._device)
        embeddings, mask = self.network.embed(text, self._encoded(pages))
        return self.network.language_backbone(inputs_embeds=embeddings, attention_mask=mask, labels=labels).loss

    def _encoded(self, pages: Tensor) -> Tensor:
        """DiT features of pages, or of kept pixels where the DiT is trained."""
        pages = pages.to(self._device, self.network.language_backbone.dtype)
        return self.network.visual_embedding.encode(pages / 127.5 - 1.0) if self._train_visual else pages

    def own_tensors(self) -> Mapping[str, Tensor]:
        """The network's tensors, tied copies once."""
        return own_tensors(self.network)

    def save(self, folder: Path, records: Mapping[str, Any], *, half: bool) -> None:
        """Write the checkpoint in the released layout, with trained rows of added tokens in their tables."""
        if self._rows is not None:
            self._rows.merge(self.network)
            self._rows = None
        dtype = torch.float16 if half else torch.float32
        save_vt5(self.network, self.start, folder, dtype=dtype, extra=dict(records))


def open_training(folder: Path, *, device: str = "cpu", train_visual: bool = False) -> TrainableVt5:
    """Open a checkpoint folder for training."""
    return TrainableVt5(load_vt5(folder), folder, device, train_visual=train_visual)

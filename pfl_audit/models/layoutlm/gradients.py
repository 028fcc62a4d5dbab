"""LayoutLM as a GradientModel: the loss that its training takes, as a function of the page's pixels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.images import Box
from pfl_audit.errors import NotAuditableError
from pfl_audit.files import sha256_json
from pfl_audit.models.layoutlm.model import LayoutLmQa
from pfl_audit.models.layoutlm.names import Version
from pfl_audit.models.layoutlm.pixels import PixelSettings
from pfl_audit.models.layoutlm.words import LayoutLmWords
from pfl_audit.models.samples import Sample, Text

GRADIENT_VERSION = 1
"""Incremented whenever the loss below changes."""

BLIND_SIDE = 224
"""Side of the page in pixels, that of LayoutLMv3, for a model that takes no image."""


_FUSION: dict[Version, tuple[str, ...]] = {
    1: ("layoutlm.embeddings.",),
    3: tuple(f"layoutlmv3.{part}" for part in ("embeddings.", "patch_embed.", "pos_embed", "cls_token", "norm.")),
}
"""Prefixes of the parameters before fusion, by version."""


class LayoutLmGradients(LayoutLmQa):
    """A LayoutLM question-answering checkpoint whose training gradient can be taken.

    The text of a sample is ``input_ids``, ``token_type_ids``, ``attention_mask`` (int64, (tokens,)), ``bbox`` (int64,
    (tokens, 4)), ``start_positions`` and ``end_positions`` (int64 ()): the question with the window of the page that
    holds the answer. The loss is the mean of the cross-entropies of start and end, as transformers computes it for one
    sample, then the mean over the samples. Padding takes no part in either softmax, so that a batch's gradient is the
    mean of its samples'.

    A model that takes no image (version 1, or 3 without ``visual_embed``) has a page of BLIND_SIDE all the same, for
    the template to be laid on, and its loss does not depend on the pixels.
    """

    reads = True

    def __init__(self, folder: Path, version: Version, device: str = "cpu") -> None:
        super().__init__(folder, version, device)
        self.network.set_attn_implementation("eager")  # torch's fused attention has no second derivative
        self.network.requires_grad_(True)
        self.pixel_settings = self._pixels or PixelSettings((BLIND_SIDE, BLIND_SIDE))
        self.sees_page = self.config.sees
        self.fingerprint = sha256_json(["gradients", GRADIENT_VERSION, self.fingerprint])
        self.fusion = _FUSION[version]
        self.patch_embedding = "layoutlmv3.patch_embed.proj.weight" if self.sees_page else None

    @property
    def page(self) -> tuple[int, int]:
        """Height and width of the network's page in pixels."""
        width, height = self.pixel_settings.size
        return height, width

    def text_decoder(self) -> None:
        """None: question and answer are part of the page's words."""

    def word_encoder(self) -> LayoutLmWords:
        """The embeddings of question and page."""
        return LayoutLmWords(self.network, self.config, self.inputs.tokenizer, self._pixels)

    def see(self, page: Image.Image) -> NDArray[np.uint8]:
        """Scale a page to the network's size, without normalisation: uint8 (*page, 3)."""
        return np.asarray(self.pixel_settings.plain(page).permute(1, 2, 0))

    def place(self, box: Box, size: tuple[int, int]) -> Box:
        """The box itself, since pages are scaled without regard to their proportions."""
        return box

    def text(self, sample: Sample) -> Text:
        """Question and page as a pair, with the position of the answer.

        Raises:
            NotAuditableError: The answer does not stand on the page, or in no window whole.
        """
        document = Document("", "", sample.words, sample.boxes)
        text = self.inputs.labelled(Query("", document, sample.question, (sample.answer,)))
        if not (text["start_positions"] or text["end_positions"]):
            raise NotAuditableError(
                "an answer does not stand among the page's words, and a LayoutLM can only point to it",
                "Ask for something that is written on the page, and check that its words are known",
            )
        return text

    def loss(self, pixels: Tensor, texts: Sequence[Text]) -> Tensor:
        """The training loss: pixels float (samples, 3, *page), 0 to 1; float ()."""
        return self.span_loss(texts, pixels)

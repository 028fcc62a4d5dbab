"""Donut as a GradientModel: the loss that its training takes, as a function of the page's pixels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from pfl_audit.documents.images import Box
from pfl_audit.files import sha256_json
from pfl_audit.models.donut.model import DonutModel
from pfl_audit.models.donut.network import page_features
from pfl_audit.models.donut.pixels import PixelSettings
from pfl_audit.models.donut.text import DonutText
from pfl_audit.models.samples import Sample, Text

GRADIENT_VERSION = 1
"""Incremented whenever the loss below changes."""


class DonutGradients(DonutModel):
    """A Donut checkpoint whose training gradient can be taken.

    The text of a sample is ``decoder_input_ids`` and ``labels``, int64 (tokens,), as
    ``inputs.InputBuilder.example`` makes them. The loss is the mean cross-entropy of a sample's own label tokens,
    then the mean over the samples: a batch's gradient is the mean of its samples', however long their answers are.
    transformers takes one mean over all tokens of a batch, which is the same for one sample.
    """

    reads = False
    sees_page = True
    fusion: tuple[str, ...] | None = ("encoder.",)
    patch_embedding = "encoder.embeddings.patch_embeddings.projection.weight"

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        super().__init__(folder, device)
        self.network.requires_grad_(True)
        self.fingerprint = sha256_json(["gradients", GRADIENT_VERSION, self.fingerprint])
        self.page = self._pixels.page

    def text_decoder(self) -> DonutText:
        """The MBart decoder."""
        return DonutText(self.network, self.inputs.tokenizer)

    def word_encoder(self) -> None:
        """None: Donut takes no words."""

    def see(self, page: Image.Image) -> NDArray[np.uint8]:
        """Scale and pad a page to the network's size, without normalisation: uint8 (*page, 3)."""
        return np.asarray(self._pixels.plain(page).permute(1, 2, 0))

    def place(self, box: Box, size: tuple[int, int]) -> Box:
        """Map a box of a page of this width and height to the network's page; both in shares of their page."""
        return place(self._pixels, box, size)

    def text(self, sample: Sample) -> Text:
        """Prompt and answer as decoder inputs, with the labels."""
        return self.inputs.example(sample.question, sample.answer).tensors()

    def loss(self, pixels: Tensor, texts: Sequence[Text]) -> Tensor:
        """The training loss: pixels float (samples, 3, *page), 0 to 1; float ()."""
        features = page_features(self.network, self._pixels.normalised(pixels))
        return self.losses(texts, features)[0].mean()


def place(settings: PixelSettings, box: Box, size: tuple[int, int]) -> Box:
    """Follow a box through the image processor: turned, scaled by the shorter side, cut down, padded.

    Args:
        settings: Pixel settings of the model.
        box: Left, top, right, bottom as shares of the page.
        size: Width and height of the page.

    Returns:
        The box as shares of what the network sees.
    """
    width, height = size
    rows, columns = settings.page
    if settings.turn and ((columns < rows and width > height) or (columns > rows and width < height)):
        left, top, right, bottom = box
        box, width, height = (1 - bottom, left, 1 - top, right), height, width
    short = min(rows, columns)
    width, height = (short, int(short * height / width)) if width <= height else (int(short * width / height), short)
    fitting = (min(width, columns), min(height, rows))
    if fitting != (width, height):
        if height > width:
            fitting = (int(width * fitting[1] / height), fitting[1])
        elif width > height:
            fitting = (fitting[0], int(height * fitting[0] / width))
        width, height = fitting
    before = ((columns - width) // 2, (rows - height) // 2)
    left, top, right, bottom = (
        (before[at % 2] + share * (width, height)[at % 2]) / (columns, rows)[at % 2] for at, share in enumerate(box)
    )
    return left, top, right, bottom

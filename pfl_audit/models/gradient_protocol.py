"""Protocol of models whose training gradient can be taken, as a function of the page's pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from pfl_audit.documents.images import Box
from pfl_audit.models.protocol import OpenedModel
from pfl_audit.models.samples import Sample, Text
from pfl_audit.models.text_decoder import TextDecoder
from pfl_audit.models.word_encoder import WordEncoder


class GradientModel(OpenedModel, Protocol):
    """A model whose training loss is twice differentiable."""

    @property
    def network(self) -> torch.nn.Module:
        """The network in evaluation mode, with attention that has second derivatives."""

    @property
    def page(self) -> tuple[int, int]:
        """Height and width of the page in pixels, as the network takes it."""

    @property
    def sees_page(self) -> bool:
        """Whether the loss depends on the pixels."""

    @property
    def fusion(self) -> tuple[str, ...] | None:
        """Prefixes of the names of the parameters before fusion, which see the page or the words alone.

        None if the network has no such split.
        """

    @property
    def patch_embedding(self) -> str | None:
        """Name of the weight that embeds the page's patches, or None."""

    @property
    def reads(self) -> bool:
        """Whether it takes the page's words, which OCR provides."""

    def text_decoder(self) -> TextDecoder | None:
        """The decoder that reads question and answer as one sequence of tokens, or None if there is none."""

    def word_encoder(self) -> WordEncoder | None:
        """The encoder of words with boxes whose embeddings are one sum, or None if there is none."""

    def see(self, page: Image.Image) -> NDArray[np.uint8]:
        """Resize and pad a page to the network's size, without normalisation: uint8 (*page, 3)."""

    def place(self, box: Box, size: tuple[int, int]) -> Box:
        """Map a box of a page of this width and height to the network's page; both in shares of their page."""

    def text(self, sample: Sample) -> Text:
        """Encode a sample.

        Raises:
            NotAuditableError: The answer is not on the page, and the model can only point to it.
        """

    def loss(self, pixels: Tensor, texts: Sequence[Text]) -> Tensor:
        """The training loss, differentiable twice in ``pixels`` and the network's parameters.

        Args:
            pixels: float (samples, 3, *page), 0 to 1.
            texts: One text per sample.

        Returns:
            float (), the mean over the samples, as in a client's training.
        """


def gradient_of(
    model: GradientModel,
    pixels: Tensor,
    texts: Sequence[Text],
    names: Sequence[str] | None = None,
    *,
    differentiable: bool = False,
) -> dict[str, Tensor]:
    """Gradient of the training loss by parameter, each tied tensor once.

    Args:
        names: Names of the parameters; all that the loss depends on if None.
        differentiable: Whether to build a graph through the gradient, for second derivatives.

    Returns:
        Name to tensor of the parameter's shape, in the order of the network's parameters.
    """
    own = dict(model.network.named_parameters())
    wanted = list(own) if names is None else list(names)
    parts: tuple[Tensor | None, ...] = torch.autograd.grad(
        model.loss(pixels, texts), [own[name] for name in wanted], create_graph=differentiable, allow_unused=True
    )
    return {name: part for name, part in zip(wanted, parts, strict=True) if part is not None}

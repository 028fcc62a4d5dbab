"""What gradient inversion needs of a model: its training loss, as a function of a page's pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from pfl_audit.documents.document import Boxes, as_boxes
from pfl_audit.documents.images import Box

if TYPE_CHECKING:
    from pfl_audit.models.text_decoder import TextDecoder
    from pfl_audit.models.word_encoder import WordEncoder

Text = Mapping[str, Tensor]
"""Everything that goes into the network beside the pixels, for one sample: question, answer, words and boxes, as
tensors by the network's own names for them, each without a batch dimension."""


@dataclass(frozen=True, eq=False)
class Sample:
    """What a client trains on once.

    Attributes:
        page: uint8 (height, width, 3), of any size.
        question: What is asked.
        answer: What training asks for.
        words: On the page, in reading order; for models that read by OCR.
        boxes: float32 (words, 4), shares of the page.
    """

    page: NDArray[np.uint8]
    question: str
    answer: str
    words: tuple[str, ...] = ()
    boxes: Boxes = field(default_factory=lambda: as_boxes([], 0))


class GradientModel(Protocol):
    """A model whose training gradient can be taken, and taken again through a gradient."""

    @property
    def family(self) -> str:
        """Name of the architecture, such as ``donut``."""
        ...

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides its gradient."""
        ...

    @property
    def network(self) -> torch.nn.Module:
        """In evaluation mode, its attention computed step by step, so that there are second derivatives."""
        ...

    @property
    def page(self) -> tuple[int, int]:
        """Height and width of what the network sees."""
        ...

    @property
    def sees_page(self) -> bool:
        """Whether the loss depends on the pixels."""
        ...

    @property
    def fusion(self) -> tuple[str, ...] | None:
        """Prefixes of the names of the parameters before fusion, which see the page or the words alone.

        None if the network has no such split.
        """
        ...

    @property
    def patch_embedding(self) -> str | None:
        """Name of the weight that embeds the page's patches, or None."""
        ...

    @property
    def reads(self) -> bool:
        """Whether it takes the page's words, which have to be read first."""
        ...

    def describe(self) -> dict[str, Any]:
        """Facts for the report: family, path, sha256, parameters, notes."""
        ...

    def text_decoder(self) -> TextDecoder | None:
        """The decoder that reads question and answer as one sequence of tokens, or None if there is none."""
        ...

    def word_encoder(self) -> WordEncoder | None:
        """The encoder of words with boxes whose embeddings are one sum, or None if there is none."""
        ...

    def see(self, page: Image.Image) -> NDArray[np.uint8]:
        """A page as the network sees it: uint8 (*page, 3), resized and padded, not yet normalised."""
        ...

    def place(self, box: Box, size: tuple[int, int]) -> Box:
        """Where a box of a page of this width and height comes to lie on what the network sees, as shares of it."""
        ...

    def text(self, sample: Sample) -> Text:
        """All of a sample but its pixels.

        Raises:
            NotAuditableError: The answer does not stand on the page, and the model can only point to it.
        """
        ...

    def loss(self, pixels: Tensor, texts: Sequence[Text]) -> Tensor:
        """The training loss, differentiable twice in ``pixels`` and the network's parameters.

        Args:
            pixels: float (samples, 3, *page), 0 to 1.
            texts: One a sample.

        Returns:
            float (), the mean over the samples, as a client's training takes it.
        """
        ...


def gradient_of(
    model: GradientModel,
    pixels: Tensor,
    texts: Sequence[Text],
    names: Sequence[str] | None = None,
    *,
    differentiable: bool = False,
) -> dict[str, Tensor]:
    """The gradient of the training loss by parameter, each tied tensor once.

    Args:
        model: Of which.
        pixels: As ``GradientModel.loss`` takes them.
        texts: As ``GradientModel.loss`` takes them.
        names: Of the parameters wanted; all that the loss depends on if None.
        differentiable: Whether the gradient shall be differentiated itself.

    Returns:
        Name to tensor of the parameter's shape, in the order of the network's parameters.
    """
    own = dict(model.network.named_parameters())
    wanted = list(own) if names is None else list(names)
    parts: tuple[Tensor | None, ...] = torch.autograd.grad(
        model.loss(pixels, texts), [own[name] for name in wanted], create_graph=differentiable, allow_unused=True
    )
    return {name: part for name, part in zip(wanted, parts, strict=True) if part is not None}

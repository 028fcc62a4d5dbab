"""Inputs of the first feed-forward layer for sequences of places, by the model itself."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.batches.inputs import BOX, TOKEN, TYPE
from pfl_audit.metrics.arrays import Floats, Integers
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.layer_input import layer_input
from pfl_audit.models.samples import Text
from pfl_audit.models.word_encoder import WordEncoder

_AT_ONCE: Final = 64
"""Sequences of one pass."""


def text_of(encoder: WordEncoder, page: Integers, answer: tuple[int, int] = (0, 0)) -> Text:
    """The sample with the places of a page, int64 (n, 7), in their order."""
    tokens, types, boxes = (torch.from_numpy(page[:, part].copy()) for part in (TOKEN, TYPE, BOX))
    return encoder.text(tokens, boxes, types, answer)


class FeedInputs:
    """What the first feed-forward layer is given, for sequences.

    Args:
        picture: float (3, height, width), 0 to 1, of every page; without use where the model takes no image.
    """

    def __init__(self, model: GradientModel, encoder: WordEncoder, picture: Tensor) -> None:
        layer = encoder.first.feed.removesuffix(".weight")
        found = (part for name, part in model.network.named_modules() if name == layer or name.endswith(f".{layer}"))
        self._model, self._encoder, self._layer = model, encoder, next(found)
        self._picture = picture[None].to(next(model.network.parameters()).device)

    def of(self, sequences: Integers) -> Floats:
        """Of every text position, float64 (batch, n, width).

        Args:
            sequences: int64 (batch, n, 7), places.
        """
        parts = [self._some(sequences[at : at + _AT_ONCE]) for at in range(0, len(sequences), _AT_ONCE)]
        return np.concatenate(parts)

    def _some(self, sequences: Integers) -> Floats:
        texts = [text_of(self._encoder, page) for page in sequences]
        pixels = self._picture.expand(len(texts), -1, -1, -1)
        held = layer_input(self._layer, lambda: self._model.loss(pixels, texts))
        return held[:, : sequences.shape[1]].cpu().double().numpy()

"""Whether recovered pages are those of an update: their gradient, computed again, is the one that was shared.

The positions of the answers are in no embedding. The row of the head's gradient for starts is a multiple of
sum over pages of (sum_p p a_p - a_place), with a_p what the head's last layer was given at position p of a page and p
its probability. Places are changed page by page until no change brings this sum nearer to the row's direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.tables import find_tensor
from pfl_audit.attacks.inversion.batches.states import text_of
from pfl_audit.metrics.arrays import Floats, Integers
from pfl_audit.models.gradient_protocol import GradientModel, gradient_of
from pfl_audit.models.samples import Text
from pfl_audit.models.word_encoder import WordEncoder

_STARTS: Final = 20
_SEED: Final = 24
"""Seed of the starts, fixed so that the same update gives the same result."""
_LEAST: Final = 1e-300
ERROR: Final = 1e-3
"""Share of an update's length that its pages may leave; what rounding and noise of the update leave comes on top."""


def error_of(
    model: GradientModel, encoder: WordEncoder, pages: Sequence[Integers], update: Mapping[str, Tensor], picture: Tensor
) -> float:
    """Share of the update's length that the gradient of the pages leaves, at the best factor, 0 to 1.

    Args:
        pages: int64 (n, 7) each, places in order.
        update: By parameter.
        picture: float (3, height, width), 0 to 1, of every page; without use where the model takes no image.
    """
    answers = answers_of(model, encoder, [text_of(encoder, page) for page in pages], update, picture)
    texts = [text_of(encoder, page, answer) for page, answer in zip(pages, answers, strict=True)]
    pixels = picture[None].expand(len(pages), -1, -1, -1).to(next(model.network.parameters()).device)
    again = {name: part.detach().cpu().double() for name, part in gradient_of(model, pixels, texts).items()}
    names = [name for name in again if name in update]
    shared = torch.cat([update[name].detach().cpu().double().flatten() for name in names])
    own = torch.cat([again[name].flatten() for name in names])
    factor = (own @ shared) / (own @ own)
    return float((shared - factor * own).norm() / shared.norm())


def answers_of(
    model: GradientModel, encoder: WordEncoder, texts: Sequence[Text], update: Mapping[str, Tensor], picture: Tensor
) -> list[tuple[int, int]]:
    """First and last token of each page's answer; the first token where the head's gradient is not shared."""
    row, head = encoder.head
    shape = tuple(next(part for part in head.parameters() if part.dim() > 1).shape)
    shared = find_tensor(update, row, shape)
    if shared is None:
        return [(0, 0)] * len(texts)
    held: list[tuple[Tensor, Tensor]] = []
    pixels = picture[None].to(next(model.network.parameters()).device)
    with head.register_forward_hook(lambda _, given, out: held.append((given[0][0], out[0]))), torch.no_grad():
        for text in texts:
            model.loss(pixels, [text])
    lengths = [len(encoder.tokens(text)) for text in texts]
    given = [part[:length].cpu().double().numpy() for (part, _), length in zip(held, lengths, strict=True)]
    means = [(out.softmax(dim=0).T @ part).cpu().double().numpy() for part, out in held]
    sides = [_nearest(shared[side].double().numpy(), sum(mean[side] for mean in means), given) for side in range(2)]
    return list(zip(*sides, strict=True))


def _nearest(row: Floats, total: Floats, given: Sequence[Floats]) -> list[int]:
    """One position of each page, of which ``total`` less their vectors is the nearest to a multiple of the row.

    Args:
        row: float64 (width,).
        total: float64 (width,).
        given: float64 (n, width) of each page.
    """
    rng = np.random.default_rng(_SEED)
    best, found = -1.0, [0] * len(given)
    for _ in range(_STARTS):
        places, alike, before = [int(rng.integers(len(some))) for some in given], 0.0, -1.0
        while alike > before:
            before = alike
            for page, some in enumerate(given):
                others = total - sum(given[at][place] for at, place in enumerate(places) if at != page)
                left = others - some
                cosines = np.abs(left @ row) / np.maximum(np.linalg.norm(left, axis=1), _LEAST)
                places[page], alike = int(cosines.argmax()), float(cosines.max())
        if alike > best:
            best, found = alike, places
    return found

"""Token test by orthogonality: the gradient at a LayerNorm input is orthogonal to the centred input.

The signal s of a position is the gradient behind the LayerNorm that follows the embeddings, taken back through it. A
LayerNorm's backward pass removes the component along its own input, so s (e(v, p) - mean) = 0 for the token v at that
position, up to epsilon and rounding. It is one number a token, which distinguishes a few thousand tokens, and it needs
no span.

In a batch a position's row of the gradient is the sum of the signals of all samples. But a row of the embedding that
one token at one position wrote is a signal, and so is a position's row where all samples have the same token. So
signals can be subtracted from rows and positions one by one: what is orthogonal to one pair of token and position is
its signal, and without it the next can be found. If nothing is left of either table, the pairs are right.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.donut_text.span import normal_odds
from pfl_audit.models.text_decoder import FirstLayer

_ROUNDED = 4.0
_ORTHOGONAL = 1e-5
"""Cosine up to which vectors count as orthogonal; 3e-6 was the largest of 1,500 in float32."""
_GONE = 30.0
"""Multiple of the rounding of what has been added and subtracted, below which a row counts as zero."""


def orthogonality_odds(tokens: Tensor, places: Tensor, signals: Tensor, decoder: FirstLayer, noise: Noise) -> Tensor:
    """Log-odds that the signal of a position belongs to a token, against a random one.

    Args:
        tokens: int64 (tokens,).
        places: int64 (places,).
        signals: float64 (places, width), of one sample.
        decoder: First layer of the decoder, for e(v, p) and for epsilon, which perturbs the orthogonality.

    Returns:
        float64 (places, tokens).
    """
    width, epsilon = decoder.width, decoder.behind[2]
    words, where = _centred(decoder.word_part(tokens)), _centred(decoder.position_part(places))
    sizes = words.square().sum(dim=1) + 2 * where @ words.T + where.square().sum(dim=1)[:, None]
    strength = signals.square().sum(dim=1).clamp_min(1e-300)[:, None]
    along = signals @ words.T + (signals * where).sum(dim=1)[:, None]
    bend = epsilon / (sizes / width + epsilon)
    expected = width * (noise.sigma**2 / strength + (_ROUNDED * noise.rounding) ** 2) + bend**2
    return normal_odds(width * along.square() / (strength * sizes.clamp_min(1e-300)), expected, 1)


@dataclass(frozen=True)
class Pairs:
    """Pairs of position and token of any sample.

    Attributes:
        held: bool (places, tokens), pairs whose signals were found, and those that what is left allows.
        complete: Whether nothing is left of either table.
    """

    held: Tensor
    complete: bool


def pair(positions: Tensor, rows: Tensor, shapes: Tensor, allowed: Tensor, rounding: float) -> Pairs:
    """Subtract signals from the rows and positions of a batch's gradient, one by one.

    Args:
        positions: float64 (places, width).
        rows: float64 (tokens, width), of the embedding, scale taken out.
        shapes: float64 (places, tokens, width): each token in each place, e of FirstLayer.
        allowed: bool (places, tokens), pairs that may be.
        rounding: Relative rounding error of the entries.
    """
    tables = (positions.clone(), rows.clone())
    handled = tuple(table.norm(dim=1) for table in tables)
    shapes, held = _flat(shapes), torch.zeros_like(allowed)
    for _ in range(len(positions) + len(rows)):
        places, tokens = _left(tables, handled, rounding)
        by_place = torch.einsum("pvw,pw->pv", shapes, tables[0]).abs() / tables[0].norm(dim=1)[:, None]
        by_token = torch.einsum("pvw,vw->pv", shapes, tables[1]).abs() / tables[1].norm(dim=1)
        open_ = allowed & ~held & places[:, None] & tokens
        cosine = torch.where(open_, torch.minimum(by_place, by_token), torch.inf)
        place, token = divmod(int(cosine.argmin()), len(rows))
        if not cosine[place, token] < _ORTHOGONAL:
            break
        held[place, token] = True
        signal = (tables[0][place] if by_place[place, token] < by_token[place, token] else tables[1][token]).clone()
        for table, sizes, index in zip(tables, handled, (place, token), strict=True):
            table[index] -= signal
            sizes[index] += signal.norm()
    places, tokens = _left(tables, handled, rounding)
    open_ = allowed & places[:, None] & tokens
    return Pairs(held | open_, not (places.any() or tokens.any()))


def _left(tables: tuple[Tensor, ...], handled: tuple[Tensor, ...], rounding: float) -> list[Tensor]:
    """Which rows of each table hold more than rounding."""
    return [table.norm(dim=1) > _GONE * rounding * sizes for table, sizes in zip(tables, handled, strict=True)]


def _flat(sums: Tensor) -> Tensor:
    """Without their means, and of length 1."""
    flat = _centred(sums)
    unit: Tensor = flat / flat.norm(dim=-1, keepdim=True).clamp_min(1e-300)
    return unit


def _centred(sums: Tensor) -> Tensor:
    return sums - sums.mean(dim=-1, keepdim=True)

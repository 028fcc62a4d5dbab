"""Question and answer of an update that holds adapters of a decoder's first self-attention."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.positioned import AddedUp, PlacedTokens, placed_tokens, without_tokens
from pfl_audit.attacks.inversion.adapters.rows import halves_of, holds_adapters, rounding_of_matrices
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing
from pfl_audit.attacks.inversion.analytic.noise import noise_of
from pfl_audit.attacks.inversion.batches.inputs import through_norms
from pfl_audit.attacks.inversion.update.traits import traits_of
from pfl_audit.models.text_decoder import FirstLayer


def decoder_tokens(
    update: Mapping[str, Tensor], layer: FirstLayer, weights: Mapping[str, Tensor] | None = None
) -> PlacedTokens | None:
    """Tokens that a decoder read, by adapters alone; None where the update has none at all.

    Args:
        update: By parameter.
        layer: First layer of the network, without adapters.
        weights: What the update was added to, by parameter, with the adapters' as far as they are known.
    """
    if not holds_adapters(update):
        return None
    if traits_of(update).signs:
        return without_tokens(Limit(Cause.SIGNS, "tokens: steps of Adam leave no rows of inputs"))
    errors = rounding_of_matrices(update, weights or {})
    halves = halves_of(update, layer.parameters.attention, layer.width, weights, errors)
    if halves is None:
        lost = "tokens are unknown, which no layer of the page's encoder is given"
        return without_tokens(missing("adapters of the decoder's first self-attention", lost))
    noise = noise_of([], halves.down if len(halves.down) else halves.up[0], None)
    return placed_tokens(halves, added_up(layer), noise)


def added_up(layer: FirstLayer) -> AddedUp:
    """What the inputs of the first self-attention are added up from."""
    norms = [(weight.numpy(), bias.numpy(), epsilon) for weight, bias, epsilon in (layer.behind, layer.before)]
    words, own = through_norms(layer.word_part(torch.arange(len(layer.embedding))).numpy(), norms)
    positions, _ = through_norms(layer.position_part(torch.arange(layer.places)).numpy(), norms)
    none = np.zeros((0, layer.width))
    return AddedUp(words, positions, (own,), (f"{len(own)} directions of LayerNorm",), none)

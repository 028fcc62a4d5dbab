"""Whether an update is one of this model: signals in front of a LayerNorm stand at right angles to its input.

LayerNorm forgets the length of its centred input x - mean(x), so that no loss changes along it: s (x - mean(x)) = 0 for
every signal s = dL/dx, up to its epsilon, whatever follows, dropout among it. With other weights x is another vector,
and the cosine is that of chance, about one over the root of the width.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit
from pfl_audit.attacks.inversion.analytic.recovery import Recovery
from pfl_audit.attacks.inversion.analytic.tables import find_tensor
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.attacks.inversion.donut_text.recovery import TextRecovery
from pfl_audit.attacks.inversion.word_text import blank, encoder_of
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.layer_input import layer_input
from pfl_audit.models.text_decoder import TextDecoder

APART = 0.5
"""Misfit from which on an update is called one of another model."""


def misfit(signals: Tensor, inputs: Tensor) -> float:
    """How far signals are from right angles to the centred inputs of a LayerNorm.

    Args:
        signals: (n, width), derivatives of a loss by the inputs, up to a factor each.
        inputs: (n, width).

    Returns:
        Root mean square of the cosines over that of chance: 0 where both are of one model, about 1 where they are not.
    """
    centred = inputs.double() - inputs.double().mean(dim=1, keepdim=True)
    cosines = torch.nn.functional.cosine_similarity(signals.double(), centred, dim=1)
    return float(cosines.square().mean().sqrt()) * sqrt(inputs.shape[1])


def misfit_limits(found: float | None) -> tuple[Limit, ...]:
    """What is said of an update that is not one of the model."""
    if found is None or found < APART:
        return ()
    words = f"the update does not fit the model's weights (misfit {found:.2f}; 0 fits, 1 is chance)"
    return (Limit(Cause.OTHER, f"{words}: it is one of another model, or of another round"),)


def encoder_misfit(model: GradientModel, seen: Observation, got: Recovery) -> float | None:
    """The misfit of an update of an encoder of words, or None where too little came back to tell."""
    encoder = encoder_of(model)
    layout = encoder.layout
    table = layout.tables["position"]
    position = find_tensor(seen.gradient, table.name, table.shape)
    sure = got.sure.all(dim=1)
    if position is None or not bool(sure.any()):
        return None
    norm = f"{layout.tables['word'].name.rsplit('.', 2)[0]}.LayerNorm"
    module = next(part for name, part in model.network.named_modules() if name == norm or name.endswith(f".{norm}"))
    text, page = encoder.text(got.tokens, got.boxes, got.types), blank(seen)[None]
    (given,) = layer_input(module, lambda: model.loss(page.to(next(model.network.parameters()).device), [text]))
    places = layout.first + torch.arange(len(sure))[sure]
    return misfit(position[places], given.cpu()[: len(sure)][sure])


def decoder_misfit(decoder: TextDecoder, seen: Observation, read: TextRecovery) -> float | None:
    """The misfit of an update of a text decoder, or None where too little came back to tell."""
    layer = decoder.first_layer()
    position = find_tensor(seen.gradient, layer.parameters.position, tuple(layer.positions.shape))
    places = read.sure.nonzero()[:, 0]
    if position is None or read.mixed or not len(places):
        return None
    return misfit(position[places + layer.offset], layer.word_part(read.ids[places]) + layer.position_part(places))

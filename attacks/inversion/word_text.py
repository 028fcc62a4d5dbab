"""Inputs of a model of words with boxes: from the closed form, and the answer's position from the head's gradient."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.encoder import encoder_tokens
from pfl_audit.attacks.inversion.adapters.rows import holds_adapters
from pfl_audit.attacks.inversion.analytic.limits import Cause, after_decay
from pfl_audit.attacks.inversion.analytic.recovery import Recovery, recover
from pfl_audit.attacks.inversion.batches.certificate import answers_of
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.attacks.inversion.matrices.recovery import (
    Placed,
    beside_tables,
    places_of,
    recovered,
    shares_attention,
    shares_embeddings,
    shares_text,
)
from pfl_audit.attacks.inversion.update.decay import without_decay
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.samples import Text
from pfl_audit.models.word_encoder import WordEncoder

LEVEL = 1 / 255
"""Error of a pixel, 0 to 1, from which on it is seen."""
MIXED = "question and answer cannot be separated in the gradient of a batch"
TELL = "Give them with --known both; of a captured gradient, give --document, --question and --answer as well"


def encoder_of(model: GradientModel) -> WordEncoder:
    """The model's encoder of words.

    Raises:
        NotAuditableError: It has none.
    """
    encoder = model.word_encoder()
    if encoder is None:
        raise NotAuditableError(
            "this model has no absolute positions in one sum with the embeddings of words, which the closed form needs",
            "Use --method lbfgs or --method gi-dqa",
        )
    return encoder


def solve(model: GradientModel, seen: Observation) -> Recovery:
    """The closed form for the gradient of a model that encodes words with boxes.

    Raises:
        NotAuditableError: The model has no such encoder.
        AuditError: The gradient holds nothing of the embeddings, nor of the first attention.
    """
    encoder = encoder_of(model)
    if by_matrices(encoder, seen):
        weights = seen.weights or dict(model.network.named_parameters())
        return of_matrices(model, seen, places_of(encoder, seen, weights))
    return _of_tables(model, seen)


def by_matrices(encoder: WordEncoder, seen: Observation) -> bool:
    """Whether the text is read by the first attention's matrices, as tables of words or positions are not shared."""
    return not shares_text(seen.gradient, encoder.layout) and shares_attention(seen.gradient, encoder)


def of_matrices(model: GradientModel, seen: Observation, placed: Placed) -> Recovery:
    """The text by the first attention's matrices, and what the tables show that are shared.

    Args:
        placed: Places of tokens.
    """
    layout = encoder_of(model).layout
    text = recovered(placed, layout)
    return beside_tables(text, _of_tables(model, seen)) if shares_embeddings(seen.gradient, layout) else text


def _of_tables(model: GradientModel, seen: Observation) -> Recovery:
    encoder = encoder_of(model)
    layout = encoder.layout
    weights = seen.weights or dict(model.network.named_parameters())
    tables = [table.name for name, table in layout.tables.items() if name in ("word", "position", "x", "y", "h", "w")]
    names = tuple(name for ending in tables for name in weights if name.endswith(ending))
    decay = without_decay(seen.gradient, weights, names)
    if holds_adapters(seen.gradient):
        return encoder_tokens(replace(seen, gradient=decay.update), encoder, weights, seen.gradient)
    found = held_to_form(recover(decay.update, layout, blank(seen), encoder.continuations()), seen)
    return replace(found, limits=after_decay(found.limits, decay.share)) if decay.share else found


def held_to_form(got: Recovery, seen: Observation) -> Recovery:
    """Pixels with what is known of the form in place of what is not certain, so that none is worse than the form.

    Where pixels are off by more than a level, those outside the private fields are the form's; where no page explains
    the update better than none does, all of them are.
    """
    if got.pixels is None or got.page is None or got.page.error <= LEVEL:
        return got
    form = blank(seen)
    inside = torch.from_numpy(seen.template.mask()) & (got.page.residual < 1)
    return replace(got, pixels=torch.where(inside, got.pixels, form))


def blank(seen: Observation) -> Tensor:
    """The template, float (3, height, width)."""
    return torch.from_numpy(seen.template.page).permute(2, 0, 1)


def hindrance(model: GradientModel, seen: Observation, got: Recovery) -> str | None:
    """Why a search cannot continue from what the closed form recovered, or None."""
    if seen.batch > 1 or any(limit.cause is Cause.MIXED for limit in got.limits):
        return MIXED
    if not len(got.tokens) or bool((got.tokens < 0).all()) or bool((got.boxes < 0).all(dim=0).any()):
        return "the closed form recovered no words, or no boxes"
    row = encoder_of(model).head.weight
    if row not in seen.gradient or not seen.gradient[row].any():
        return f"without the gradient of {row} the place of the answer is unknown"
    return None


def text_of(model: GradientModel, seen: Observation, got: Recovery) -> Text:
    """The sample that the closed form recovered, with the answer's place; what it leaves open is the unknown token.

    Raises:
        NotAuditableError: See ``hindrance``.
    """
    if reason := hindrance(model, seen, got):
        raise NotAuditableError(reason, TELL)
    encoder = encoder_of(model)
    text, page = encoder.text(got.tokens, got.boxes, got.types), blank(seen) if got.pixels is None else got.pixels
    (answer,) = answers_of(model, encoder, [text], seen.gradient, page)
    return encoder.text(got.tokens, got.boxes, got.types, answer)

"""Tokens of an update that holds adapters of the first attention, with the boxes known.

An input is a multiple of e(token) + s(box) for a word, and of W_p f + c_p for a patch of the page with features f. Of
the rows of dL/dA (``rows``), what is known or need not be is taken out: s of all boxes, e of the tokens of form and
prompt, c_p, and W_p times the span of the features, which is that of the gradient of W_p, whatever is on the page. What
is left are combinations of e of the private tokens. Their coefficients are unknown, and there may be nearly as many of
them as directions are left (``pursuit``).

The rows determine no more than the sum of the coefficients of each token and of each box: which token has which
box, how often, and in which order, is not in them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.explanation import (
    crowded,
    explain,
    in_errors,
    outside_of,
    room_in,
    silent,
    unsure_limits,
)
from pfl_audit.attacks.inversion.adapters.positioned import PlacedTokens, without_tokens
from pfl_audit.attacks.inversion.adapters.rows import Halves
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.input_span.basis import bases_of
from pfl_audit.attacks.inversion.input_span.inputs import InputParts
from pfl_audit.metrics.arrays import Floats, Integers


def span_of_patches(gradient: Floats | None, matrix: Tensor, offset: Tensor, noise: Noise) -> Floats:
    """Directions of all patches of all pages, float64 (n, width), before the first norm's factors.

    Args:
        gradient: float64 (width, features), of the layer that patches are given to; None if it is not shared, which
            leaves all features.
        matrix: Its weight, before the update.
        offset: Its bias, (width,).
    """
    features = np.eye(matrix.shape[1])
    if gradient is not None:
        basis = bases_of(gradient, noise.rounding, noise.sigma)[0]
        features = (basis.inside * basis.scales[:, None]).T
    return np.concatenate([features @ matrix.cpu().double().numpy().T, offset.cpu().double().numpy()[None]])


def span_beside(gradient: Floats, vectors: Floats, noise: Noise, errors: Floats) -> Floats:
    """Directions of a layer's inputs outside of known ones, float64 (n, width), as far as they are above errors.

    Args:
        gradient: float64 (outputs, width).
        vectors: float64 (m, width), inputs that are known.
        noise: Errors of the update.
        errors: float64 (outputs,), as ``Halves.errors``.
    """
    moved = gradient.any(axis=1)
    if not moved.any():
        return np.zeros((0, gradient.shape[1]))
    rows, levels = in_errors(gradient[moved], noise, errors[moved])
    free = outside_of([vectors])
    _, strengths, directions = np.linalg.svd(rows @ free, full_matrices=False)
    return np.asarray(directions[strengths > levels.edge(len(rows), free.shape[1])] @ free.T)


def private_tokens(
    halves: Halves,
    parts: InputParts,
    boxes: Integers,
    beside: Floats,
    known: Sequence[int],
    patches: Floats,
    noise: Noise,
) -> PlacedTokens:
    """Find the tokens.

    Args:
        halves: Gradients of the adapters.
        parts: Weights that inputs are made of.
        boxes: int64 (n, 4), boxes that words have.
        beside: float64 (m, width), as ``span_beside``: directions of boxes that are not known.
        known: Tokens of the form's words and of the prompt, and the end.
        patches: float64 (n, width), as ``span_of_patches``.
        noise: Errors of the update.
    """
    if not len(halves.down):
        return without_tokens(silent(halves))
    number = np.unique(np.asarray(known, dtype=np.int64))
    rows, levels = in_errors(halves.down.double().numpy(), noise, halves.errors.numpy())
    # The offset by itself: boxes that are combinations of these do not have it once.
    spatial = np.concatenate(
        [parts.spatial(boxes), (beside @ parts.matcher.T) * parts.norm, [parts.offset * parts.norm]]
    )
    free = outside_of([spatial, parts.words[number], patches * parts.norm])
    if not room_in(free):
        return without_tokens(_crowded(0, free, (len(boxes), len(beside), len(number))))
    found = explain(rows, levels, parts.words, free, number)
    if not found.ends:
        return without_tokens(_crowded(len(found.chosen), free, (len(boxes), len(beside), len(number))))
    tokens, limits = found.chosen[found.sure], unsure_limits(found, np.ones_like(found.sure), levels, noise)
    if not len(tokens) and not limits:
        return without_tokens(Limit(Cause.NOISE, "tokens: errors explain all of the adapters' rows"))
    return PlacedTokens(tokens[:0], tokens, limits)


def _crowded(taken: int, free: Floats, known: tuple[int, int, int]) -> Limit:
    (width, many), (boxes, beside, tokens) = free.shape, known
    used = [f"{boxes} boxes", f"{beside} directions of others"] if beside else [f"{boxes} boxes"]
    used += [f"{tokens} tokens of form and prompt", f"{max(0, width - many - sum(known))} directions of patches"]
    return crowded(taken, width, many, used)

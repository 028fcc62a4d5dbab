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
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.certainty import certain
from pfl_audit.attacks.inversion.adapters.pursuit import LEAST_OUTSIDE, pursue
from pfl_audit.attacks.inversion.adapters.rows import Halves
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.input_span.basis import bases_of
from pfl_audit.attacks.inversion.input_span.inputs import InputParts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ABOVE: Final = 1.5
"""Times the largest singular value of independent errors (Marchenko and Pastur), up to which nothing is left."""
_DEPENDENT: Final = 4.0
"""Times the norm of all errors, the same in single precision, whose errors are of the computation: not independent."""
_COARSE: Final = 2.0**-20
"""Relative error of an entry above which it is one of rounding before the update was sent."""
_DEPENDS: Final = 1e-9
"""Share of the largest singular value below which a direction is none."""


@dataclass(frozen=True, eq=False)
class Private:
    """Tokens beside those of form and prompt.

    Attributes:
        tokens: int64 (n,), that nothing but the pages explains.
        candidates: Number of others of the explanation.
        room: How many there may be at most.
        limits: Why something is missing.
    """

    tokens: Ints
    candidates: int
    room: int
    limits: tuple[Limit, ...]


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


def private_tokens(
    halves: Halves, parts: InputParts, boxes: Ints, known: Sequence[int], patches: Floats, noise: Noise
) -> Private:
    """Find the tokens.

    Args:
        halves: Gradients of the adapters.
        parts: Weights that inputs are made of.
        boxes: int64 (n, 4), all boxes that words have.
        known: Tokens of the form's words and of the prompt, and the end.
        patches: float64 (n, width), as ``span_of_patches``.
        noise: Errors of the update.
    """
    none = np.zeros(0, np.int64)
    if not len(halves.down):
        why = "the halves B are zero, as in the first round, and so are the gradients of the halves A"
        only = f"inputs show in {halves.rank} directions alone, fewer than they are"
        return Private(none, 0, 0, (Limit(Cause.FIRST, f"tokens: {why}: {only}"),))
    rows, number = halves.down.double().numpy(), np.unique(np.asarray(known, dtype=np.int64))
    rows = rows / np.sqrt(noise.sigma**2 + (noise.rounding * rows).std(axis=1, keepdims=True) ** 2)
    free = outside_of([parts.spatial(boxes), parts.words[number], patches * parts.norm])
    many, room = free.shape[1], max(0, free.shape[1] - LEAST_OUTSIDE)
    if not room:
        return Private(none, 0, 0, (_crowded(0, parts, many, len(boxes), len(number)),))
    coarse = noise.everywhere or noise.rounding > _COARSE
    edge = _ABOVE * (sqrt(len(rows)) + sqrt(many)) if coarse else _DEPENDENT * sqrt(len(rows) * many)
    rows, dictionary = rows @ free, parts.words @ free
    dictionary[number] = 0.0
    found = pursue(rows, dictionary, edge)
    if not found.ends:
        limit = _crowded(len(found.chosen), parts, many, len(boxes), len(number))
        return Private(none, len(found.chosen), room, (limit,))
    sure, strong = certain(rows, dictionary, found, edge)
    tokens, unsure = found.chosen[sure], int((~sure & (strong | coarse)).sum())
    if unsure:
        errors = f"noise of {noise.sigma:.0e} an entry" if noise.everywhere else "rounding"
        limit = Limit(Cause.NOISE, f"tokens: {errors} leaves {unsure} of {len(sure)} unsure")
        return Private(tokens, unsure, room, (limit,))
    if not len(tokens):
        return Private(none, 0, room, (Limit(Cause.NOISE, "tokens: errors explain all of the adapters' rows"),))
    return Private(tokens, 0, room, ())


def outside_of(spans: Sequence[Floats]) -> Floats:
    """Orthonormal directions outside of some vectors, float64 (width, m).

    Args:
        spans: float64 (n, width) each; each is brought to one size by itself.
    """
    every = np.concatenate(
        [each / max(float(np.linalg.norm(each, 2)), 1e-300) if each.size else each for each in spans]
    )
    if not len(every):
        return np.eye(every.shape[1])
    _, values, directions = np.linalg.svd(every, full_matrices=True)
    return np.asarray(directions[int((values > _DEPENDS * values[0]).sum()) :].T)


def _crowded(taken: int, parts: InputParts, many: int, boxes: int, known: int) -> Limit:
    width = parts.words.shape[1]
    rest = width - many - boxes - known
    used = f"{boxes} boxes, {known} tokens of form and prompt and {rest} directions of patches"
    why = f"of {width} directions {used} leave {many}, and {taken} tokens do not explain the adapters' rows"
    return Limit(
        Cause.CROWDED, f"tokens: {why}: there are more, or the update is of another model, dropped out or noisy"
    )

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
from pfl_audit.attacks.inversion.adapters.likeliest import likeliest
from pfl_audit.attacks.inversion.adapters.pursuit import LEAST_OUTSIDE, pursue
from pfl_audit.attacks.inversion.adapters.rows import Halves
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.input_span.basis import bases_of
from pfl_audit.attacks.inversion.input_span.inputs import InputParts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ABOVE: Final = 1.5
"""Times the largest singular value of independent errors (Marchenko and Pastur), up to which nothing is left."""
_DEPENDENT: Final = 4.0
"""Times the norm of all errors, the same in single precision, whose errors are of the computation: not independent."""
_START: Final = 0.8
"""Share of the room that is taken by likelihood where the pursuit alone does not end."""
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
    rows, levels = _in_errors(gradient[moved], noise, errors[moved])
    free = outside_of([vectors])
    _, strengths, directions = np.linalg.svd(rows @ free, full_matrices=False)
    return np.asarray(directions[strengths > levels.edge(len(rows), free.shape[1])] @ free.T)


@dataclass(frozen=True)
class _Levels:
    """Errors of rows that are divided by their size: shares of independent ones, and of those of a computation."""

    added: float
    rounded: float

    def edge(self, rows: int, many: int) -> float:
        """Largest singular value of errors, of so many rows and columns."""
        independent = _ABOVE * (sqrt(rows) + sqrt(many)) * self.added
        return independent + _DEPENDENT * sqrt(rows * many) * self.rounded


def _in_errors(rows: Floats, noise: Noise, errors: Floats) -> tuple[Floats, _Levels]:
    """Rows divided by the size of their errors.

    Args:
        rows: float64 (k, width).
        errors: float64 (k,), of weights that were subtracted.
    """
    added = noise.sigma**2 + errors[:, None] ** 2
    rounded = (noise.rounding * rows).std(axis=1, keepdims=True) ** 2
    if noise.everywhere or noise.rounding > _COARSE:
        added, rounded = added + rounded, 0 * rounded
    size = np.sqrt(added + rounded)
    return rows / size, _Levels(float((np.sqrt(added) / size).max()), float((np.sqrt(rounded) / size).max()))


def private_tokens(
    halves: Halves,
    parts: InputParts,
    boxes: Ints,
    beside: Floats,
    known: Sequence[int],
    patches: Floats,
    noise: Noise,
) -> Private:
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
    none = np.zeros(0, np.int64)
    if not len(halves.down):
        return nothing(_silent(halves))
    rows, number = halves.down.double().numpy(), np.unique(np.asarray(known, dtype=np.int64))
    rows, levels = _in_errors(rows, noise, halves.errors.numpy())
    # The offset by itself: boxes that are combinations of these do not have it once.
    spatial = np.concatenate(
        [parts.spatial(boxes), (beside @ parts.matcher.T) * parts.norm, [parts.offset * parts.norm]]
    )
    free = outside_of([spatial, parts.words[number], patches * parts.norm])
    many, room = free.shape[1], max(0, free.shape[1] - LEAST_OUTSIDE)
    if not room:
        return nothing(_crowded(0, many, (len(boxes), len(beside), len(number)), parts))
    coarse, edge = levels.added > levels.rounded, levels.edge(len(rows), many)
    rows, dictionary = rows @ free, parts.words @ free
    dictionary[number] = 0.0
    found = pursue(rows, dictionary, edge)
    if not found.ends:
        found = pursue(rows, dictionary, edge, likeliest(rows, dictionary, edge, int(_START * room)).tolist())
    if not found.ends:
        limit = _crowded(len(found.chosen), many, (len(boxes), len(beside), len(number)), parts)
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


def nothing(limit: Limit) -> Private:
    """No tokens, and why."""
    return Private(np.zeros(0, np.int64), 0, 0, (limit,))


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


def _silent(halves: Halves) -> Limit:
    """Why no row of the halves A holds anything."""
    if not halves.rank:
        return missing("the halves A of adapters", "tokens are unknown")
    if not halves.first:
        return Limit(Cause.NOISE, "tokens: the rounding of the weights explains all of the adapters' rows")
    why = "the halves B are zero, as in the first round, and so are the gradients of the halves A"
    only = f"inputs show in {halves.rank} directions alone, fewer than they are"
    return Limit(Cause.FIRST, f"tokens: {why}: {only}")


def _crowded(taken: int, many: int, known: tuple[int, int, int], parts: InputParts) -> Limit:
    width, (boxes, beside, tokens) = parts.words.shape[1], known
    used = [f"{boxes} boxes", f"{beside} directions of others"] if beside else [f"{boxes} boxes"]
    used += [f"{tokens} tokens of form and prompt", f"{max(0, width - many - sum(known))} directions of patches"]
    listed = f"{', '.join(used[:-1])} and {used[-1]}"
    why = f"of {width} directions {listed} leave {many}, and {taken} tokens do not explain the adapters' rows"
    return Limit(
        Cause.CROWDED, f"tokens: {why}: there are more, or the update is of another model, dropped out or noisy"
    )

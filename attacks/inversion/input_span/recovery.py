"""Tokens and boxes of all pages of an update, by the span of what the first layers were given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.positioned import PlacedTokens, without_tokens
from pfl_audit.attacks.inversion.adapters.recovery import (
    private_tokens,
    span_beside,
    span_of_patches,
)
from pfl_audit.attacks.inversion.adapters.rows import halves_of, holds_adapters, rounding_in
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing, restated, sent
from pfl_audit.attacks.inversion.analytic.noise import Noise, noise_of
from pfl_audit.attacks.inversion.analytic.tables import shared_tensors, weight_of
from pfl_audit.attacks.inversion.input_span.basis import Basis, bases_of
from pfl_audit.attacks.inversion.input_span.boxes import boxes_in
from pfl_audit.attacks.inversion.input_span.corners import Standing, needed, standing
from pfl_audit.attacks.inversion.input_span.dropout import share_dropped
from pfl_audit.attacks.inversion.input_span.gap import Apart
from pfl_audit.attacks.inversion.input_span.inputs import InputParts
from pfl_audit.attacks.inversion.input_span.tokens import Allowed, pairs_in
from pfl_audit.attacks.inversion.update.traits import traits_of
from pfl_audit.metrics.arrays import Bools, Floats, Integers
from pfl_audit.models.word_tables import SummedInputs

_FULL = 3 / 4
"""Share of all directions from which on too few are left to lie outside of."""
_LEAST_LEFT = 16
"""Directions outside below which inputs are as many as the width, and those of weak signals may be missing."""
_MOST = 5e8
"""Boxes that are tested; a full page of 250 words has some 2e8."""
_SEED = 20
"""Seed of the random vectors, fixed so that the same update gives the same result."""


@dataclass(frozen=True, eq=False)
class Spanned:
    """What the spans show.

    Attributes:
        boxes: int64 (m, 4), of all words; None where no gradient determines it.
        allowed: Which tokens can stand in which of the boxes; None where no gradient determines it.
        limits: Why something is missing.
        private: Tokens by adapters alone; None where the attention itself is shared, or no boxes are known.
    """

    boxes: Integers | None
    allowed: Allowed | None
    limits: tuple[Limit, ...]
    private: PlacedTokens | None = None


def inputs_of_span(
    update: Mapping[str, Tensor],
    names: SummedInputs,
    weights: Mapping[str, Tensor],
    edges: Mapping[str, frozenset[int]],
    form: Integers,
    words: Sequence[Sequence[int]] = (),
    errors: Mapping[str, Tensor] | None = None,
    dropout: float = 0.0,
    steps: int = 1,
) -> Spanned:
    """Test all tokens with all boxes of the coordinates that were found.

    Args:
        update: By parameter.
        names: How inputs are made.
        weights: The model's, by parameter, before the update.
        edges: Coordinates by table, ``x`` and ``y``, as far as they are known.
        form: int64 (n, 4), boxes of the empty form's words.
        words: Tokens of each of these words, which adapters need not show.
        errors: As of ``rounding_of_matrices``, of adapters, the first attention, the spatial matcher and the tables of
            coordinates.
        dropout: Rate of dropout on these inputs, as stated.
        steps: Optimiser steps of the update. The errors of several are those of weights that changed between them, and
            relative to the signals as those of single precision are.

    Returns:
        Boxes that the form does not have are found where both tables of coordinates and the spatial matcher are shared;
        tokens are those of these boxes.
    """
    tables = [names.word, names.across, names.down]
    traits = traits_of(update, tables)
    if traits.signs:
        why = "tokens in boxes: all numbers are of one size, as after a step of Adam, and have no span of the inputs"
        private = None
        if holds_adapters(update):
            private = without_tokens(Limit(Cause.SIGNS, why.replace("tokens in boxes", "tokens")))
        return Spanned(None, None, (Limit(Cause.SIGNS, why),), private)
    parts, rng = InputParts.of(names, weights), np.random.default_rng(_SEED)
    known = names.pairs.numpy()
    always = np.unique(known[:, 1:], axis=0)
    attention = _gradient(update, weights, names.attention)
    matcher = _gradient(update, weights, (names.matcher,))
    noise = noise_in(update, weights, names, attention if attention is not None else matcher)
    changed = sent(replace(traits, rounded=None))
    if changed is None and noise.everywhere:
        changed = Limit(Cause.NOISE, f"noise of {noise.sigma:.0e} an entry")
    read = _Read(update, names, weights, parts, noise, errors or {}, dropout, steps)
    placed = read.boxes(matcher, edges, form, always, changed, rng)
    if attention is None:
        limits = (*placed.limits, missing("the first attention", "which tokens are in which boxes is unknown"))
        boxes = placed.boxes if placed.boxes is not None else always
        private = read.private(boxes, [*known[:, 0], *(token for word in words for token in word)])
        if private is not None and (cause := placed.changed or placed.foreign) is not None:
            private = replace(private, limits=tuple(_restated(limit, cause) for limit in private.limits))
        return Spanned(placed.certain, None, (*limits, *restated(placed.doubts, traits)), private)
    bases = bases_of(attention.double().numpy(), noise.rounding, read.added(names.attention))
    boxes = placed.boxes if placed.boxes is not None else np.unique(np.concatenate([always, form]), axis=0)
    allowed = pairs_in(bases, parts, np.arange(len(parts.words)), boxes, known, rng, lower=steps == 1)
    masked = _stated(dropout) if dropout and bases[0].rank else None
    shown = _limits("tokens in boxes", bases, allowed.words, placed.changed or masked, dropout=names.dropout)
    limits = (*placed.limits, *shown)
    if placed.boxes is not None and allowed.words.separated and allowed.places.separated:
        kept = (placed.boxes[:, None] == allowed.boxes[None]).all(axis=2).any(axis=1)
        placed = replace(placed, boxes=placed.boxes[kept], there=placed.there[kept])
    found = allowed if allowed.words.separated else None
    return Spanned(placed.certain, found, (*limits, *restated(placed.doubts, traits)))


@dataclass(frozen=True, eq=False)
class _Placed:
    """Boxes in the span of the matcher's inputs.

    Attributes:
        boxes: int64 (n, 4); None where no gradient determines them.
        there: bool (n,), those that are on a page for certain; the others may be corners of them.
        limits: Why something is missing.
        changed: What was done to the update, as far as it is known by now.
    """

    boxes: Integers | None
    there: Bools
    limits: tuple[Limit, ...]
    changed: Limit | None

    @property
    def certain(self) -> Integers | None:
        """Those that are on a page."""
        return None if self.boxes is None else self.boxes[self.there]

    @property
    def foreign(self) -> Limit | None:
        """The limit that the update belongs to another model, if it does."""
        found = [limit for limit in self.limits if limit.cause is Cause.OTHER]
        return Limit(Cause.OTHER, found[0].words.removeprefix("boxes: ")) if found else None

    @property
    def doubts(self) -> tuple[Limit, ...]:
        """The limit that further boxes may be on a page."""
        if not (many := int((~self.there).sum())):
            return ()
        more = (
            "one more box may be on a page, or a corner" if many == 1 else f"{many} more may be on a page, or corners"
        )
        why = f"{more} of others, which have the same coordinates"
        if self.changed is not None:
            return (Limit(self.changed.cause, f"boxes: {self.changed.words}: {why}"),)
        return (Limit(Cause.CROWDED, f"boxes: {why}"),)


@dataclass(frozen=True, eq=False)
class _Read:
    """An update and the weights that it is of."""

    update: Mapping[str, Tensor]
    names: SummedInputs
    weights: Mapping[str, Tensor]
    parts: InputParts
    noise: Noise
    errors: Mapping[str, Tensor]
    dropout: float
    steps: int

    def boxes(
        self,
        matcher: Tensor | None,
        edges: Mapping[str, frozenset[int]],
        form: Integers,
        always: Integers,
        changed: Limit | None,
        rng: np.random.Generator,
    ) -> _Placed:
        """All boxes of these coordinates that are in the span of the matcher's inputs."""
        nowhere = np.zeros(0, bool)
        if matcher is None:
            lost = missing("the spatial matcher", "only boxes of the form's words are known")
            return _Placed(None, nowhere, (lost,), changed)
        both = len(edges) == len(("x", "y"))
        many = np.prod([len(some) * (len(some) + 1) / 2 for some in edges.values()])
        axes = [np.array(sorted(edges[name]) if both and many <= _MOST else [], dtype=np.int64) for name in ("x", "y")]
        bases = bases_of(matcher.double().numpy(), self.noise.rounding, self.added((self.names.matcher,)))
        got = boxes_in(bases, self.parts, (axes[0], axes[1]), form, always, rng, lower=self.steps == 1)
        if not got.apart.separated and changed is None and bases[0].rank:
            changed = _stated(self.dropout) if self.dropout else _dropout(bases[0], self.parts, always)
        limits = _limits("boxes", bases, got.apart, changed, dropout=self.names.dropout)
        if many > _MOST:
            cause = Cause.NOISE if self.noise.everywhere else Cause.CROWDED
            limits.append(Limit(cause, f"boxes: {many:.0e} boxes have the coordinates found, too many to test"))
        if not got.apart.separated:
            return _Placed(None, nowhere, tuple(limits), changed)
        found = self._standing(got.boxes, matcher)
        sure = (got.boxes[:, None] == always[None]).all(axis=2).any(axis=1)
        kept = sure | ~found.absent
        return _Placed(got.boxes[kept], (sure | found.there)[kept], tuple(limits), changed)

    def _standing(self, boxes: Integers, matcher: Tensor) -> Standing:
        """Which boxes are on a page; without the tables of coordinates, those that are no combination of others."""
        offset, across, down = map(self.shared, (self.names.offset, self.names.across, self.names.down))
        gradient, rng = matcher.double().numpy(), np.random.default_rng(_SEED)
        if across is None or down is None:
            there = needed(self.parts.placed(boxes), gradient)
            return Standing(there, np.zeros_like(there))
        rounded = [self.rounded(ending) for ending in (self.names.matcher, self.names.across, self.names.down)]
        given = boxes, gradient, offset, (across, down), self.noise, rng
        return standing(self.parts, *given, rounded if self.steps == 1 else None)

    def added(self, endings: Sequence[str]) -> Floats:
        """Standard deviation of what noise and the rounding of one step add to an entry, float64 (rows,)."""
        shared = [ending for ending in endings if self.shared(ending) is not None]
        rounded = np.concatenate([self.rounded(ending) for ending in shared])
        return np.asarray(np.hypot(self.noise.sigma, rounded if self.steps == 1 else 0 * rounded))

    def rounded(self, ending: str) -> Floats:
        """Standard deviation of what the rounding of weights adds, float64 (rows,); zeros where it is not known."""
        return rounding_in(self.errors, ending, len(weight_of(self.weights, ending)))

    def private(self, boxes: Integers, known: Sequence[int]) -> PlacedTokens | None:
        """Tokens by adapters of the first attention, with the boxes that are known; None where there are none."""
        names, width = self.names, self.parts.words.shape[1]
        halves = halves_of(self.update, names.attention, width, self.weights, self.errors)
        if halves is None:
            return None
        if (matcher := self.shared(names.matcher)) is None:
            return without_tokens(missing("the spatial matcher", "adapters show tokens only where boxes are known"))
        matrix, offset = (weight_of(self.weights, ending) for ending in (names.patches, names.patches_offset))
        patches = span_of_patches(self.shared(names.patches), matrix, offset, self.noise)
        beside = span_beside(matcher, self.parts.placed(boxes), self.noise, self.rounded(names.matcher))
        return private_tokens(halves, self.parts, boxes, beside, known, patches, self.noise)

    def shared(self, ending: str) -> Floats | None:
        """A tensor of the update."""
        found = shared_tensors(self.update, self.weights, (ending,)).get(ending)
        return None if found is None else found.double().numpy()


def _stated(dropout: float) -> Limit:
    """Dropout, where it is stated."""
    return Limit(Cause.DROPOUT, f"the inputs have dropout of {dropout:g}, so that each has a mask of its own")


def _dropout(basis: Basis, parts: InputParts, always: Integers) -> Limit | None:
    """Dropout, where it explains that the box of the end is not in the span."""
    end = always[~always.any(axis=1)]
    share = share_dropped(basis, parts.placed(end)[0]) if len(end) else None
    if share is None:
        return None
    return Limit(Cause.DROPOUT, f"dropout: the end's box lies in the span with {share:.0%} of its numbers at zero")


def _gradient(update: Mapping[str, Tensor], weights: Mapping[str, Tensor], endings: Sequence[str]) -> Tensor | None:
    """Those of the matrices that were shared, one below the other; None if there is none."""
    shared = shared_tensors(update, weights, endings)
    return torch.cat(list(shared.values())) if shared else None


def noise_in(
    update: Mapping[str, Tensor], weights: Mapping[str, Tensor], names: SummedInputs, matrix: Tensor | None
) -> Noise:
    """Noise by rows of the tables of coordinates that no page uses; else rounding alone."""
    if matrix is None:
        return Noise(0.0, 0.0, everywhere=False)
    return noise_of(list(shared_tensors(update, weights, (names.across, names.down)).values()), matrix, None)


def _restated(limit: Limit, changed: Limit) -> Limit:
    """A limit with its true cause, where something was done to the update that makes too many of the inputs."""
    return Limit(changed.cause, f"tokens: {changed.words}") if limit.cause is Cause.CROWDED else limit


def _limits(what: str, bases: Sequence[Basis], apart: Apart, changed: Limit | None, *, dropout: float) -> list[Limit]:
    """Why a span does not separate what is on the page from what is not.

    Args:
        changed: What was done to the update before it was sent, if anything.
        dropout: Rate that the inputs have while the model trains.
    """
    rank, width = bases[0].rank, len(bases[0].scales)
    if apart.separated and width - rank > _LEAST_LEFT:
        return []
    if rank > _FULL * width and (changed is None or changed.cause is not Cause.DROPOUT):
        return [Limit(Cause.CROWDED, f"{what}: too many inputs for the width, {rank} directions of {width} are taken")]
    if changed is not None:
        return [Limit(changed.cause, f"{what}: {changed.words}")]
    dropped = f", or was taken with the model's dropout of {dropout:g}" if dropout and rank else ""
    if rank and apart.foreign:
        words = "not even the prompt and the end, which every sample has, lie in the span"
        origin = f"the update is one of another model, or of another round{dropped}"
        return [Limit(Cause.OTHER, f"{what}: {words}: {origin}")]
    words = "what is on the page cannot be separated from what is not"
    why = f": the update has errors{dropped}" if dropped else ", because the update has errors"
    return [Limit(Cause.NOISE, f"{what}: {words}{why}")]

"""Separates an update into its pages: places of tokens, sequences, and a certificate by the recomputed gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing, sent
from pfl_audit.attacks.inversion.analytic.noise import Noise, noise_of
from pfl_audit.attacks.inversion.analytic.signals import rows_of
from pfl_audit.attacks.inversion.analytic.tables import find_tensor, shared_tensors, weight_of
from pfl_audit.attacks.inversion.batches.certificate import ERROR, error_of
from pfl_audit.attacks.inversion.batches.inputs import POSITION, TOKEN, TextInputs
from pfl_audit.attacks.inversion.batches.pages import Guess, page_with
from pfl_audit.attacks.inversion.batches.places import MOST, MOST_PARTS, Parts, Placed, places_in
from pfl_audit.attacks.inversion.batches.states import FeedInputs
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.attacks.inversion.input_span.basis import Basis, bases_of
from pfl_audit.attacks.inversion.update.traits import traits_of
from pfl_audit.attacks.inversion.word_text import blank
from pfl_audit.metrics.arrays import Bools, Integers
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.word_encoder import TableName, WordEncoder

_FULL: Final = 3 / 4
"""Share of a layer's width or outputs from which on its gradient has too few directions left."""
_FIT: Final = 3.0
"""Excess up to which a sequence is taken for a page."""
_NEAR: Final = 10.0
"""Excess up to which it is taken for one where none is in the span: its gradient decides."""
_LARGEST: Final = 1200
"""Places from which on pages are not sought: least squares over all of them takes minutes."""
_TRIES: Final = 6
"""Searches for each page."""
_PICTURED: Final = 1
"""The same where pages have pictures: each search takes minutes at base size, and ends with candidates alone."""
_SEED: Final = 23
"""Seed of random places and directions, fixed so that the same update gives the same result."""
_TABLES: Final[tuple[TableName, ...]] = ("word", "position", "types", "x", "y", "h", "w")


@dataclass(frozen=True, eq=False)
class Separated:
    """What is known of the pages of an update.

    Attributes:
        placed: int64 (n, 7), places that are on a page: those that the span leaves no choice for, and those of pages.
        candidates: Number of other places in the span.
        pages: int64 (m, 7) each, places in order.
        error: Share of the update that the gradient of the pages leaves; None where it was not computed.
        certified: Whether this error is one of rounding.
        limits: Why something is missing.
    """

    placed: Integers
    candidates: int
    pages: tuple[Integers, ...]
    error: float | None
    certified: bool
    limits: tuple[Limit, ...]


_NOTHING: Final = Separated(np.zeros((0, 7), np.int64), 0, (), None, certified=False, limits=())


def separate(model: GradientModel, encoder: WordEncoder, seen: Observation, tokens: Integers) -> Separated:
    """Places and pages of an update of several pages.

    Args:
        tokens: int64 (n,), those that are on its pages.
    """
    weights = seen.weights or dict(model.network.named_parameters())
    tables = _tables(seen.gradient, encoder)
    if isinstance(tables, Limit):
        return replace(_NOTHING, limits=(tables,))
    traits = traits_of(seen.gradient, (encoder.layout.tables[name].name for name in _TABLES))
    if traits.signs:
        return replace(_NOTHING, limits=(Limit(Cause.SIGNS, "places: steps of Adam leave no span of the inputs"),))
    noise = noise_of([tables[name] for name in ("word", "x", "y", "h", "w")], tables["position"], tables["word"])
    changed = sent(replace(traits, rounded=None))
    placed = _places(seen.gradient, encoder, weights, tables, noise, tokens)
    if isinstance(placed, Limit):
        if changed is not None and placed.cause is not Cause.MISSING:
            placed = Limit(changed.cause, f"places: {changed.words}")
        return replace(_NOTHING, limits=(placed,))
    return pages_of(model, encoder, seen, placed.places, placed.certain, noise)


def pages_of(
    model: GradientModel, encoder: WordEncoder, seen: Observation, places: Integers, certain: Bools, noise: Noise
) -> Separated:
    """Pages of an update, by the places in the span of its first layer.

    Args:
        places: int64 (n, 7), all in the span.
        certain: bool (n,), those that are on a page.
        noise: Errors of the update's matrices.
    """
    weights = seen.weights or dict(model.network.named_parameters())
    own, left = places[certain], int((~certain).sum())
    alone = replace(_NOTHING, placed=own, candidates=left)
    basis = _feed(seen.gradient, encoder, weights, noise)
    if isinstance(basis, Limit):
        return replace(alone, limits=(basis,))
    if seen.weights is not None:
        why = Limit(Cause.OTHER, "pages: they are sought with the weights of the model alone, not of earlier rounds")
        return replace(alone, limits=(why,))
    if len(places) > _LARGEST:
        why = Limit(Cause.MIXED, f"pages: {len(places):,} places are possible, too many to choose from")
        return replace(alone, limits=(why,))
    pages = _pages(model, encoder, seen, (places, certain), basis)
    if len(pages) < seen.batch:
        why = Limit(Cause.MIXED, f"pages: sequences in the span were found for {len(pages)} of {seen.batch}")
        return replace(alone, pages=tuple(pages), limits=(why,))
    if model.sees_page:
        why = Limit(Cause.MIXED, "pages: candidates, as their pictures are unknown and no gradient certifies them")
        return replace(alone, pages=tuple(pages), limits=(why,))
    error = error_of(model, encoder, pages, seen.gradient, blank(seen))
    if not error <= ERROR + _errors(seen.gradient, noise):  # NaN certifies nothing
        why = Limit(Cause.MIXED, f"pages: candidates, whose gradient leaves {error:.1%} of the update unexplained")
        return replace(alone, pages=tuple(pages), error=error, limits=(why,))
    every = np.unique(np.concatenate(pages), axis=0)
    return Separated(every, 0, tuple(pages), error, certified=True, limits=())


def _tables(update: Mapping[str, Tensor], encoder: WordEncoder) -> dict[str, Tensor] | Limit:
    found: dict[str, Tensor] = {}
    for name in _TABLES:
        table = encoder.layout.tables.get(name)
        shared = None if table is None else find_tensor(update, table.name, table.shape)
        if shared is None or not encoder.layout.slices:
            return missing(f"the table of {name}", "places of tokens are unknown")
        found[name] = shared
    return found


def _places(
    update: Mapping[str, Tensor],
    encoder: WordEncoder,
    weights: Mapping[str, Tensor],
    tables: Mapping[str, Tensor],
    noise: Noise,
    tokens: Integers,
) -> Placed | Limit:
    basis = _bases(update, encoder.first.attention, weights, noise)
    if isinstance(basis, Limit):
        return basis
    used = {name: rows_of(table, noise) for name, table in tables.items()}
    last = int(used["position"].max(initial=-1)) - encoder.layout.first
    parts = Parts(tokens, np.arange(last + 1), used["types"], {name: used[name] for name in ("x", "y", "h", "w")})
    heads, boxes = len(tokens) * max(0, last + 1) * len(used["types"]), parts.count()
    if heads * boxes > MOST or max(heads, boxes) > MOST_PARTS:
        words = f"places: {heads:,} tokens at positions and {boxes:,} boxes are possible by the tables"
        return Limit(Cause.CROWDED, f"{words}, too many to test")
    known = np.array([[encoder.first.start, 0, 0, 0, 0, 0, 0]])
    inputs = TextInputs.of(encoder.layout, encoder.first, weights)
    found = places_in(basis, inputs, parts, known, np.random.default_rng(_SEED))
    if found.apart.separated:
        return found
    if found.rank > _FULL * encoder.layout.width:
        words = f"{found.rank} directions of {encoder.layout.width} are taken"
        return Limit(Cause.CROWDED, f"places: too many inputs for the width, {words}")
    if found.apart.foreign and not noise.everywhere:
        words = "places: not even the first token, which every sample has, lies in the span"
        return Limit(Cause.OTHER, f"{words}: dropout, or an update of another model or round")
    return Limit(Cause.NOISE, "places: errors of the update are as large as what distinguishes true places")


def _feed(
    update: Mapping[str, Tensor], encoder: WordEncoder, weights: Mapping[str, Tensor], noise: Noise
) -> Basis | Limit:
    found = _bases(update, (encoder.first.feed,), weights, noise)
    if isinstance(found, Limit):
        return found
    name = encoder.first.feed
    most = min(weight_of(weights, name).shape)
    if found[0].rank > _FULL * most:
        words = f"pages: too many positions for the first feed-forward layer, {found[0].rank} directions of {most}"
        return Limit(Cause.CROWDED, words)
    return found[0]


def _bases(
    update: Mapping[str, Tensor], names: tuple[str, ...], weights: Mapping[str, Tensor], noise: Noise
) -> list[Basis] | Limit:
    shared = list(shared_tensors(update, weights, names).values())
    if not shared:
        return missing("the first encoder layer", "places and pages are unknown")
    return bases_of(torch.cat(shared).double().numpy(), noise.rounding, noise.sigma)


def _pages(
    model: GradientModel, encoder: WordEncoder, seen: Observation, placed: tuple[Integers, Bools], basis: Basis
) -> list[Integers]:
    """Distinct sequences in the span or close to it, at most as many as the update has pages."""
    rng, states, places = np.random.default_rng(_SEED), FeedInputs(model, encoder, blank(seen)), placed[0]
    options = [places[places[:, POSITION] == at] for at in range(places[:, POSITION].max() + 1)]
    ends = [some[some[:, TOKEN] == encoder.first.end] for some in options]
    guesses: list[Guess] = []
    tries, most = 0, seen.batch * (_PICTURED if model.sees_page else _TRIES)
    for anchor in _anchors(*placed, options):
        good = [guess.page for guess in guesses if guess.excess <= _FIT]
        if len(good) >= seen.batch or tries == most:
            break
        if any((page == anchor).all(axis=1).any() for page in good):
            continue
        tries += 1
        tried = [
            page_with(anchor, [*options[:last], end], states.of, basis, rng, pictured=model.sees_page)
            for last, end in enumerate(ends)
            if last > anchor[POSITION] and len(end) and all(len(some) for some in options[:last])
        ]
        best = min(tried, key=lambda guess: guess.excess, default=None)
        if best is not None and best.excess <= _NEAR and not any(np.array_equal(best.page, g.page) for g in guesses):
            guesses.append(best)
    return [guess.page for guess in sorted(guesses, key=lambda guess: guess.excess)[: seen.batch]]


def _anchors(places: Integers, certain: Bools, options: list[Integers]) -> list[Integers]:
    """Places to begin pages with: those that are certain first, then those of tokens with few possible places."""
    tokens, counts = np.unique(places[:, TOKEN], return_counts=True)
    many = counts[np.searchsorted(tokens, places[:, TOKEN])]
    choices = np.array([len(options[at]) for at in places[:, POSITION]])
    order = np.lexsort((many, ~certain))
    return [places[at] for at in order if choices[at] > 1]


def _errors(update: Mapping[str, Tensor], noise: Noise) -> float:
    """Share of the update's length that rounding and noise make up, at the most."""
    parts = [part for part in update.values() if part.any()]
    length = sqrt(sum(float(part.double().square().sum()) for part in parts))
    return noise.rounding + 2 * noise.sigma * sqrt(sum(part.numel() for part in parts)) / max(length, 1e-300)

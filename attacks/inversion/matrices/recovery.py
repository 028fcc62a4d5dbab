"""The text of an update that shares nothing of the embeddings, with the limits of what is recovered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.rows import rounding_in, rounding_of_matrices
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing, sent
from pfl_audit.attacks.inversion.analytic.noise import Noise, noise_of
from pfl_audit.attacks.inversion.analytic.recovery import Recovery
from pfl_audit.attacks.inversion.analytic.tables import find_tensor, read_tables
from pfl_audit.attacks.inversion.batches.inputs import BOX, POSITION, TOKEN, TYPE, TextInputs
from pfl_audit.attacks.inversion.batches.places import alone, rank_of
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.attacks.inversion.input_span.basis import Basis, bases_of
from pfl_audit.attacks.inversion.matrices.search import LEAST, Found, find_places
from pfl_audit.attacks.inversion.update.traits import traits_of
from pfl_audit.metrics.arrays import Bools, Floats, Integers
from pfl_audit.models.word_encoder import EmbeddingLayout, WordEncoder

_FULL: Final = 3 / 4
"""Share of the width from which on too few directions are left."""
_LARGE: Final = 100.0
"""Times the errors of rounding, from which on an update has others."""
_MOST: Final = 10_000
"""Places up to which combinations of others are sought."""
_FALLS: Final = 1000.0
"""Ratio of the weakest input of a span to directions of errors, from which on both are distinguished."""
_SEED: Final = 26
"""Seed of the random places, fixed so that the same update gives the same result."""
_UNKNOWN: Final = Noise(0.0, 0.0, everywhere=False)


@dataclass(frozen=True, eq=False)
class Placed:
    """Places of tokens by the first layer's matrices.

    Attributes:
        places: int64 (n, 7), all in the span.
        certain: bool (n,), those that are on a page whatever else is.
        limits: Why something is missing.
        noise: Errors of the matrices.
    """

    places: Integers
    certain: Bools
    limits: tuple[Limit, ...]
    noise: Noise

    @property
    def sure(self) -> Integers:
        """Those that are on a page, int64 (m, 7)."""
        return self.places[self.certain]


def shares_embeddings(update: Mapping[str, Tensor], layout: EmbeddingLayout) -> bool:
    """Whether an update holds a table of words, of positions or of patches."""
    tables = read_tables(update, layout)
    return any(table is not None for table in (tables.word, tables.position, tables.patches))


def shares_text(update: Mapping[str, Tensor], layout: EmbeddingLayout) -> bool:
    """Whether an update holds both tables of words and of positions, of which tables alone give tokens in place."""
    tables = read_tables(update, layout)
    return tables.word is not None and tables.position is not None


def shares_attention(update: Mapping[str, Tensor], encoder: WordEncoder) -> bool:
    """Whether an update holds a matrix of the first attention."""
    return bool(_matrices(update, encoder))


def places_of(encoder: WordEncoder, seen: Observation, weights: Mapping[str, Tensor]) -> Placed:
    """Tokens, positions and boxes by the first attention's matrices, which the update must hold.

    A place in the span of one page is on it, as there is one place at each position; of several pages, if it is no
    combination of others, and all that is in the span was found.

    Args:
        weights: What the update was added to, by parameter.
    """
    layout, parts = encoder.layout, _matrices(seen.gradient, encoder)
    traits = traits_of(seen.gradient)
    if traits.signs:
        return _none(Limit(Cause.SIGNS, "tokens and boxes: steps of Adam leave no span of the inputs"))
    if not layout.slices:
        return _none(missing("the embeddings", "this model adds up distances of words, and no boxes"))
    matrix = torch.cat(list(parts.values()))
    noise = noise_of([], matrix, None)
    bases = bases_of(matrix.double().numpy(), noise.rounding, _added(seen, parts, weights))
    inputs = TextInputs.of(layout, encoder.first, weights)
    found = find_places(bases, inputs, encoder.first.start, encoder.first.end, np.random.default_rng(_SEED))
    changed = sent(replace(traits, rounded=None))
    if not len(found.places):
        return _none(_nothing(found, bases[0], seen, changed, noise.rounding), noise)
    sees = layout.tables.get("patches")
    patches = sees.shape[1] if sees is not None else 0
    least, last = min(basis.rank for basis in bases), int(found.places[:, POSITION].max())
    certain = _certain(found, seen.batch, bases, patches)
    limits = _limits(found, certain, seen.batch, changed or sent(traits))
    if found.beside < LEAST and layout.slices["x"][0] == layout.slices["x"][-1]:
        limits = [missing("the embeddings", "words in boxes are unknown, as all coordinates share the whole width")]
    if seen.batch == 1 and least > last + 1 + patches:
        words = f"the span has {least} directions, more than the {last + 1} positions of one page and its patches"
        limits = [Limit(Cause.MIXED, f"tokens: {words}"), *limits]
    return Placed(found.places, certain, tuple(limits), noise)


def recovered(placed: Placed, layout: EmbeddingLayout) -> Recovery:
    """The text of a page as far as it is certain; of several pages, tokens and coordinates without places."""
    sure = placed.sure
    many = int(placed.places[:, POSITION].max(initial=-1)) + 1
    if len(np.unique(sure[:, POSITION])) < len(sure):
        many = 0
    tokens, types, boxes = np.full(many, -1), np.full(many, -1), np.full((many, 4), -1)
    known = np.zeros((many, 2), bool)
    if many:
        at = sure[:, POSITION]
        tokens[at], types[at], boxes[at], known[at] = sure[:, TOKEN], sure[:, TYPE], sure[:, BOX], True
    edges = {"x": np.unique(sure[:, [3, 5]]), "y": np.unique(sure[:, [4, 6]])}
    limits = placed.limits
    if layout.pixels is not None:
        limits = (*limits, missing("the patches' positions", "the pixels are unknown"))
    return Recovery(
        tokens=torch.from_numpy(tokens),
        types=torch.from_numpy(types),
        boxes=torch.from_numpy(boxes),
        sure=torch.from_numpy(known),
        present=torch.from_numpy(np.unique(sure[:, TOKEN])),
        coordinates={name: torch.from_numpy(rows) for name, rows in edges.items()},
        limits=limits,
    )


def beside_tables(text: Recovery, tables: Recovery) -> Recovery:
    """The text of the matrices with what tables show: pixels, and tokens and boxes that the matrices leave open."""
    count = max(len(text.tokens), len(tables.tokens))
    values = []
    for side, name in enumerate(("tokens", "types", "boxes")):
        first, second = (_long(getattr(part, name), count, -1) for part in (text, tables))
        known = _long(text.sure, count, 0)[:, min(side, 1)].bool()
        values.append(torch.where(known if first.dim() == 1 else known[:, None], first, second))
    sure = _long(text.sure, count, 0).bool() | _long(tables.sure, count, 0).bool()
    edges = {
        name: _united([part.coordinates[name] for part in (text, tables) if name in part.coordinates])
        for name in {**text.coordinates, **tables.coordinates}
    }
    own = tuple(limit for limit in text.limits if "pixels" not in limit.words)
    kept = tuple(limit for limit in tables.limits if own or "pixels" in limit.words)
    return replace(
        tables,
        tokens=values[0],
        types=values[1],
        boxes=values[2],
        sure=sure,
        present=_united([text.present, tables.present]),
        coordinates=edges,
        limits=(*own, *kept),
    )


def _united(parts: Sequence[Tensor]) -> Tensor:
    """All numbers of several parts, in rising order."""
    return torch.from_numpy(np.unique(torch.cat(list(parts)).numpy()))


def _long(part: Tensor, count: int, fill: int) -> Tensor:
    """Rows up to a number of them."""
    more = torch.full((count - len(part), *part.shape[1:]), fill, dtype=part.dtype)
    return torch.cat([part, more])


def _none(limit: Limit, noise: Noise = _UNKNOWN) -> Placed:
    return Placed(np.zeros((0, 7), np.int64), np.zeros(0, bool), (limit,), noise)


def _matrices(update: Mapping[str, Tensor], encoder: WordEncoder) -> dict[str, Tensor]:
    """Those of the first attention, by their endings."""
    width = encoder.layout.width
    found = {name: find_tensor(update, name, (width, width)) for name in encoder.first.attention}
    return {name: part for name, part in found.items() if part is not None}


def _added(seen: Observation, parts: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> Floats:
    """Standard deviation of what the rounding of one step's weights adds to an entry, float64 (rows,)."""
    errors = rounding_of_matrices(seen.gradient, weights, tuple(parts), seen.steps) if seen.steps == 1 else {}
    return np.concatenate([rounding_in(errors, ending, len(part)) for ending, part in parts.items()])


def _certain(found: Found, batch: int, bases: Sequence[Basis], patches: int) -> Bools:
    """Which places are on a page."""
    rank = min(basis.rank for basis in bases)
    _, at, counts = np.unique(found.places[:, POSITION], return_inverse=True, return_counts=True)
    if batch == 1:
        mixed = rank > len(counts) + patches and rank > int(found.places[:, POSITION].max()) + 1 + patches
        return np.asarray((counts[at] == 1) & (not mixed), dtype=np.bool_)
    if len(found.places) > _MOST or found.beside < LEAST:
        return np.zeros(len(found.places), bool)
    if not _whole(bases[0].strengths, rank_of(found.places) + patches):
        return np.zeros(len(found.places), bool)
    return alone(found.places)


def _whole(strengths: Floats, accounted: int) -> bool:
    """Whether so many inputs are all of a span: what follows is none, or weaker by far, as errors are.

    Args:
        strengths: float64 (rank,), falling.
    """
    return len(strengths) <= accounted or bool(_FALLS * strengths[accounted] < strengths[accounted - 1])


def _limits(found: Found, certain: Bools, batch: int, changed: Limit | None) -> list[Limit]:
    """What is not certain, and why."""
    if found.beside < LEAST:
        words = f"{found.beside} directions are left beside the inputs and the part of left and right edges"
        return [Limit(Cause.CROWDED, f"tokens in boxes: too many inputs for the width, {words}: {LEAST} are needed")]
    positions = int(found.places[:, POSITION].max()) + 1
    open_ = positions - len(np.unique(found.places[certain, POSITION]))
    if batch > 1 and not certain.all():
        words = f"{int((~certain).sum())} of {len(certain)} places in the span may be combinations of others"
        return [Limit(Cause.MIXED, f"places: {words}")]
    if not open_:
        return []
    words = f"{open_} of {positions} positions have no place in the span, or several"
    if changed is not None:
        return [Limit(changed.cause, f"tokens: {words}: {changed.words}")]
    return [Limit(Cause.NOISE, f"tokens: {words}: the update has errors")]


def _nothing(found: Found, basis: Basis, seen: Observation, changed: Limit | None, rounding: float) -> Limit:
    """Why nothing is in the span."""
    what, width = "tokens and boxes", len(basis.scales)
    if found.rank > _FULL * width:
        words = f"{found.rank} directions of {width} are taken"
        return Limit(Cause.CROWDED, f"{what}: too many inputs for the width, {words}")
    if changed is not None:
        return Limit(changed.cause, f"{what}: {changed.words}")
    if seen.dropout:
        words = f"the inputs have dropout of {seen.dropout:g}, so that each has a mask of its own"
        return Limit(Cause.DROPOUT, f"{what}: {words}")
    noisy = not basis.rank or float(basis.strengths.max()) * rounding * _LARGE < 1
    if noisy or not found.apart.foreign:
        return Limit(Cause.NOISE, f"{what}: errors of the update are as large as what distinguishes true places")
    words = "not even the first token, which every sample has, lies in the span"
    return Limit(Cause.OTHER, f"{what}: {words}: dropout, or an update of another model or round")

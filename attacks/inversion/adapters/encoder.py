"""Words of an update that holds adapters of the first attention of an encoder of words, with tables beside them or not.

An input is a multiple of w(token) + p(position) + t(type) + b(box) for a word, and of W_p f + c_p + p'(place) for a
patch of the page with features f. Taken out are the positions, types and patches, and the boxes as far as they are
known: by the tables of positions and coordinates, where these are shared, else those of the form's words. What other
boxes there may be is looked for as tokens are, by their coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.explanation import silent
from pfl_audit.attacks.inversion.adapters.positioned import AddedUp, PlacedTokens, placed_tokens, without_tokens
from pfl_audit.attacks.inversion.adapters.recovery import span_beside
from pfl_audit.attacks.inversion.adapters.rows import DOWN, halves_of, rounding_in, rounding_of_matrices
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing, restated
from pfl_audit.attacks.inversion.analytic.noise import Noise, noise_of
from pfl_audit.attacks.inversion.analytic.recovery import Recovery, recover
from pfl_audit.attacks.inversion.analytic.signals import rows_of
from pfl_audit.attacks.inversion.analytic.tables import Tables, array_of, read_tables
from pfl_audit.attacks.inversion.batches.inputs import TextInputs, through_norms
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.attacks.inversion.matrices.recovery import beside_tables
from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.attacks.inversion.update.traits import traits_of
from pfl_audit.metrics.arrays import Floats, Integers
from pfl_audit.models.word_encoder import WordEncoder

_BESIDE: Final = ("the word embeddings", "the position embeddings")
"""Words of limits on tables that adapters make up for."""
_EDGES: Final = ("x", "y", "h", "w")
_UNITS: Final = 1000
"""Of boxes, on a page."""
_MARGIN: Final = 2
"""Thousandths by which coordinates of a page may be outside of the form's, by rounding."""


def encoder_tokens(
    seen: Observation, encoder: WordEncoder, weights: Mapping[str, Tensor], sent_as: Mapping[str, Tensor]
) -> Recovery:
    """Tokens by adapters, and beside them what the tables that were shared show.

    Args:
        seen: The update, without weight decay where tables show it.
        weights: The model's, by parameter, before the update.
        sent_as: The update as it was sent, by parameter.

    Raises:
        AuditError: A tensor is not that of the model.
    """
    layout = encoder.layout
    tables = read_tables(seen.gradient, layout)
    traits = traits_of(seen.gradient, (table.name for table in layout.tables.values()))
    edges = [table for name in _EDGES if (table := tables.edge(name)) is not None]
    got = _of_tables(seen, encoder, tables, edges)
    if traits.signs:
        found = without_tokens(Limit(Cause.SIGNS, "tokens: steps of Adam leave no rows of inputs"))
    else:
        parts = (DOWN, layout.tables["projection"].name) if layout.pixels is not None else (DOWN,)
        errors = rounding_of_matrices(sent_as, weights, parts, seen.steps)
        found = _by_adapters(seen, encoder, weights, tables, edges, got, errors)
    # Where tokens are, the adapters show, so that no table is missing for them.
    limits = [limit for limit in got.limits if not any(each in limit.words for each in _BESIDE)]
    return _joined(got, found, [*limits, *restated(found.limits, traits)])


def _of_tables(seen: Observation, encoder: WordEncoder, tables: Tables, edges: Sequence[Tensor]) -> Recovery:
    """What the tables show by themselves; coordinates alone, where that is all that there is."""
    if tables.position is not None or tables.word is not None:
        return recover(seen.gradient, encoder.layout, None, encoder.continuations())
    none, noise = torch.zeros(0, dtype=torch.int64), noise_of(edges, edges[0], None) if edges else None
    shared = {name: tables.edge(name) for name in ("x", "y")}
    found = {
        name: torch.from_numpy(rows_of(part, noise)) for name, part in shared.items() if part is not None and noise
    }
    limits = (missing("the tables of positions and coordinates", "boxes are unknown"),)
    sure = torch.zeros(0, 2, dtype=torch.bool)
    return Recovery(none, none, none.reshape(0, 4), sure, none, coordinates=found, limits=limits)


def _by_adapters(
    seen: Observation,
    encoder: WordEncoder,
    weights: Mapping[str, Tensor],
    tables: Tables,
    edges: Sequence[Tensor],
    got: Recovery,
    errors: Mapping[str, Tensor],
) -> PlacedTokens:
    update, first, layout = seen.gradient, encoder.first, encoder.layout
    halves = halves_of(update, first.attention, layout.width, weights, errors)
    if halves is None:
        return without_tokens(missing("adapters of the first attention", "tokens are unknown"))
    if not len(halves.down):
        return without_tokens(silent(halves))
    noise = noise_of(edges, halves.down, None)
    patches = _patches(encoder, weights, tables, noise, errors)
    if isinstance(patches, Limit):
        return without_tokens(patches)
    inputs = TextInputs.of(layout, first, weights)
    boxes, used, more = _boxes(inputs, tables, noise, got, seen.template)
    sums = (inputs.tables["word"], inputs.tables["position"][layout.first :], inputs.tables["types"], boxes, more)
    words, positions, types, boxes, more = (inputs.linear(each)[0] for each in sums)
    own = inputs.linear(types)[1]
    listed = [f"{len(own) + len(types)} directions of LayerNorm and types", used]
    if len(patches):
        listed.append(f"{np.linalg.matrix_rank(patches)} of patches")
    places = None if tables.position is None else len(got.tokens)
    return placed_tokens(halves, AddedUp(words, positions, (own, types, boxes, patches), listed, more, places), noise)


def _patches(
    encoder: WordEncoder,
    weights: Mapping[str, Tensor],
    tables: Tables,
    noise: Noise,
    errors: Mapping[str, Tensor],
) -> Floats | Limit:
    """Directions of all patches of any page, float64 (n, width)."""
    layout, states = encoder.layout, encoder.first.patches
    if states is None:
        return np.zeros((0, layout.width))
    matrix, offset, at = (array_of(weights, layout.tables[name].name) for name in ("projection", "bias", "patches"))
    gradient = None if tables.projection is None else tables.projection.flatten(1).double().numpy()
    matrix = matrix.reshape(len(matrix), -1)
    if gradient is None and min(matrix.shape) >= layout.width:
        return missing("the patch projection", "tokens: patches of the page may have any direction, and hide them")
    features = np.eye(matrix.shape[1])
    if gradient is not None:
        rounded = rounding_in(errors, layout.tables["projection"].name, len(gradient))
        features = span_beside(gradient, features[:0], noise, rounded)
    places, start = at[0, 1:] + offset, array_of(weights, states.start)[0] + at[0, :1]
    norms = [(array_of(weights, norm.gain), array_of(weights, norm.shift), norm.epsilon) for norm in states.norms]
    vectors, own = through_norms(np.concatenate([features @ matrix.T, places, start]), norms)
    return np.concatenate([vectors, own])


def _boxes(
    inputs: TextInputs, tables: Tables, noise: Noise, got: Recovery, form: Template
) -> tuple[Floats, str, Floats]:
    """Vectors of boxes that are known, float64 (n, width), what they are in words, and vectors of others."""
    if not inputs.layout.slices:
        return np.zeros((0, inputs.layout.width)), "no boxes", np.zeros((0, inputs.layout.width))
    shared = {name: tables.edge(name) for name in inputs.layout.slices}
    if len(got.boxes) and bool(got.sure[:, 1].all()):
        boxes = np.unique(got.boxes.numpy(), axis=0)
        return inputs.boxes(boxes), f"{len(boxes)} boxes", np.zeros((0, inputs.layout.width))
    known = {name: rows_of(table, noise) for name, table in shared.items() if table is not None}
    printed = np.concatenate([np.zeros((1, 4)), form.boxes * _UNITS]).round().astype(np.int64)
    boxes = np.unique(printed, axis=0)
    return (
        inputs.boxes(boxes),
        f"{len(boxes)} boxes of the form",
        _of_coordinates(inputs, _possible(inputs, form) | known),
    )


def _possible(inputs: TextInputs, form: Template) -> dict[str, Integers]:
    """Coordinates that words in the form's fields may have, by table."""
    fields = np.array([field.box for field in form.fields]).reshape(-1, 4) * _UNITS
    left, top, right, bottom = fields.T

    def between(low: Floats, high: Floats, name: str) -> Integers:
        spans = [np.arange(int(a) - _MARGIN, int(b) + _MARGIN + 1) for a, b in zip(low, high, strict=True)]
        every = np.unique(np.concatenate([*spans, np.zeros(1, int)]))
        return every[(every >= 0) & (every < len(inputs.tables[name]))]

    none = np.zeros(len(fields))
    return {
        "x": between(left, right, "x"),
        "y": between(top, bottom, "y"),
        "h": between(none, bottom - top, "h"),
        "w": between(none, right - left, "w"),
    }


def _of_coordinates(inputs: TextInputs, rows: Mapping[str, Integers]) -> Floats:
    """What each coordinate adds to a sum, float64 (n, width): once for each slice of its table."""
    found = []
    for name, parts in inputs.layout.slices.items():
        for part in parts:
            vectors = np.zeros((len(rows[name]), inputs.layout.width))
            vectors[:, part] = inputs.tables[name][rows[name]]
            found.append(vectors)
    return np.concatenate(found)


def _joined(got: Recovery, found: PlacedTokens, limits: Sequence[Limit]) -> Recovery:
    ids = torch.from_numpy(found.ids)
    none = torch.full((len(ids), 5), -1)
    sure = torch.stack([ids >= 0, torch.zeros_like(ids, dtype=torch.bool)], dim=1)
    text = Recovery(ids, none[:, 0], none[:, 1:], sure, torch.from_numpy(found.present))
    return replace(beside_tables(text, got), limits=tuple(limits))

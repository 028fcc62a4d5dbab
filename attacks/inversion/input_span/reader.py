"""Tokens, coordinates, boxes and text of an update of a model that adds up words and boxes, by tables and by span."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.rows import DOWN, holds_adapters, rounding_of_matrices
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing, restated, sent
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.attacks.inversion.input_span.ordered import words_in_order
from pfl_audit.attacks.inversion.input_span.recovery import inputs_of_span
from pfl_audit.attacks.inversion.input_span.tokens import Allowed
from pfl_audit.attacks.inversion.table_words import LookedUp, words_of_tables
from pfl_audit.attacks.inversion.update.decay import without_decay
from pfl_audit.attacks.inversion.update.traits import traits_of
from pfl_audit.errors import AuditError
from pfl_audit.metrics.arrays import Integers
from pfl_audit.models.word_tables import SumsWordsAndBoxes

_EDGES = ("x", "y")
"""Tables of coordinates."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """What was read.

    Attributes:
        tokens: Of all pages.
        edges: Coordinates by table, as far as the tables were shared.
        boxes: int64 (n, 4), of all words; none where they are not known.
        words: Boxes with their tokens in order, where the whole text of the page is certain; else none.
        page: float (3, height, width), the page's pixels, 0 to 1; None where they are unknown.
        limits: Why something may be missing.
    """

    tokens: frozenset[int]
    edges: Mapping[str, frozenset[int]]
    boxes: Integers
    words: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    page: Tensor | None
    limits: tuple[Limit, ...]


def sums_of(seen: Observation, tables: SumsWordsAndBoxes, weights: Mapping[str, Tensor]) -> Inputs:
    """Read an update.

    Args:
        weights: Before the update, by parameter.

    Raises:
        AuditError: The update holds nothing of the tables, nor of the first layers.
    """
    sent_as, adapted = seen.gradient, holds_adapters(seen.gradient)
    traits = traits_of(sent_as, (table.name for table in (tables.word, *tables.edges.values())))
    names = [name for table in tables.edges.values() for name in weights if name.endswith(table.name)]
    if sent(traits) is None:  # rounding once more removes what shows the decay
        seen = replace(seen, gradient=without_decay(sent_as, weights, tuple(names)).update)
    refused, tokens, edges, limits = None, frozenset[int](), dict[str, frozenset[int]](), tuple[Limit, ...]()
    try:
        tokens, edges, limits = words_of_tables(sent_as, LookedUp.of(tables), weights, seen.steps)
    except AuditError as error:
        refused = error
        limits = (missing("the tables of words and coordinates", "only tokens in boxes of the form and the question"),)
    if any(limit.cause is Cause.SIGNS for limit in limits):  # steps of Adam leave no span
        return Inputs(tokens, edges, np.zeros((0, 4), np.int64), (), None, limits)
    form = seen.template
    words = [tables.pieces(word) for word in form.words]
    summed = tables.summed()
    matrices = (DOWN, *summed.attention, summed.matcher, summed.across, summed.down)
    errors = rounding_of_matrices(sent_as, weights, matrices, seen.steps)
    inputs = summed, weights, edges, tables.rows(form.boxes), words, errors
    found = inputs_of_span(seen.gradient, *inputs, dropout=seen.dropout, steps=seen.steps)
    if refused is not None and found.boxes is None and found.allowed is None and not adapted:
        raise refused
    if found.allowed is not None:
        tokens, limits = _tokens(tokens, found.allowed, found.boxes is not None and len(edges) == len(_EDGES), limits)
        tokens |= tables.always
    elif found.private is not None:
        limits = tuple(limit for limit in limits if not _of_words(limit))
        limits = (*limits, *restated(found.private.limits, traits))
        tokens |= frozenset(found.private.present.tolist())
    boxes = np.zeros((0, 4), np.int64) if found.boxes is None else found.boxes
    ordered = words_in_order(seen, tables, weights, found)
    limits = (*limits, *found.limits)
    if ordered.limits:
        limits = (*limits, *restated(ordered.limits, traits))
    return Inputs(tokens, edges, boxes, ordered.words, ordered.page, limits)


def _tokens(
    by_rows: frozenset[int], found: Allowed, whole: bool, limits: tuple[Limit, ...]
) -> tuple[frozenset[int], tuple[Limit, ...]]:
    """Tokens by both: those of the span where all boxes are known, whatever hides the rows of the table."""
    by_span = frozenset(found.tokens.tolist())
    if not whole or not limits:
        return by_rows | by_span, limits
    return by_span, tuple(limit for limit in limits if not _of_words(limit))


def _of_words(limit: Limit) -> bool:
    """Whether a limit says that the table of words is not shared."""
    return limit.cause is Cause.MISSING and "words" in limit.words

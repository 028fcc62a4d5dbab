"""Words and coordinates of all pages of an update, in any order: rows of tables show that they occur, not where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit
from pfl_audit.attacks.inversion.analytic.tables import find_tensor
from pfl_audit.attacks.inversion.context import Case, GradientContext, fillings, keep_text, unscored
from pfl_audit.attacks.inversion.controls import ANY_ORDER, COORDINATES, Counts, noise_like, private_tokens
from pfl_audit.attacks.inversion.donut_text.recovery import recover_text
from pfl_audit.attacks.inversion.question_answer import answer_of
from pfl_audit.attacks.inversion.table_words import words_of_tables
from pfl_audit.attacks.inversion.word_text import solve
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.gradient_protocol import GradientModel, Text
from pfl_audit.models.word_tables import LooksUpWords, WordTables

_ROWS = (Cause.MISSING, Cause.NOISE, Cause.QUANTISED, Cause.SPARSE)
_ORDER = ("pixels", "which token")
"""Words of limits on what is no part of a bag: the page, and where tokens stand."""
_DOWN = 10_000
"""Added to the coordinates of upper and lower edges, to tell them from those of left and right ones."""
Items = Mapping[str, frozenset[int]]
"""Measure to tokens, or to coordinates in thousandths."""


@dataclass(frozen=True)
class Bag:
    """What occurs on any page of an update.

    Attributes:
        items: By measure.
        limits: Why something may be missing.
    """

    items: Items
    limits: tuple[Limit, ...]


@dataclass(frozen=True)
class Bagged:
    """Result on one update. Counts are of private fields alone.

    Attributes:
        pages: Number of pages of the update.
        found: Measure to how many came back, how many there are, and how many were named.
        counts: The same as one share, the lower of precision and recall, against the client's own pages and against
            other fillings of their forms.
        noise: The same, of Gaussian noise of the update's size, against the own pages.
    """

    name: str
    pages: int
    found: Mapping[str, tuple[int, int, int]]
    counts: Mapping[str, Counts]
    noise: Mapping[str, Counts]
    limits: tuple[Limit, ...]


def attack(context: GradientContext) -> list[Bagged]:
    """Read the rows of every update.

    Raises:
        NotAuditableError: The model has no tables that are looked up, or there is no truth to compare with.
        AuditError: The update holds nothing of the tables.
    """
    found = []
    with context.progress.task("words in any order", len(context.cases)) as task:
        for case in context.cases:
            bag = bag_of(context.model, case)
            if case.truths:
                found.append(_compare(context, case, bag))
            else:
                keep_text(context, "words", case, _named(context.model, bag))
            task.advance()
    if not found:
        raise unscored()
    return found


def bag_of(model: GradientModel, case: Case) -> Bag:
    """What the rows of an update's tables show.

    Raises:
        NotAuditableError: The model has no tables that are looked up.
        AuditError: The update holds nothing of the tables.
    """
    encoder, decoder = model.word_encoder(), model.text_decoder()
    if encoder is not None:
        got = solve(model, case.seen)
        items: dict[str, frozenset[int]] = {ANY_ORDER: frozenset(got.present.tolist())}
        if got.coordinates:
            found = [rows + (_DOWN if name == "y" else 0) for name, rows in got.coordinates.items()]
            items[COORDINATES] = frozenset(torch.cat(found).tolist())
        return Bag(items, _of_rows(got.limits))
    if decoder is not None:
        read = recover_text(case.seen.gradient, decoder.first_layer())
        return Bag({ANY_ORDER: frozenset(read.present.tolist())}, _of_rows(read.limits))
    if isinstance(model, LooksUpWords):
        tables = model.word_tables()
        weights = find_tensor(dict(model.network.named_parameters()), tables.word.name, tables.word.shape)
        tokens, places, limits = words_of_tables(case.seen.gradient, tables, weights)
        items = {ANY_ORDER: tokens}
        if places:
            items[COORDINATES] = frozenset(
                at + (_DOWN if name == "y" else 0) for name, rows in places.items() for at in rows
            )
        return Bag(items, limits)
    raise NotAuditableError("this model has no table of words whose rows are looked up", "Use --method lbfgs")


def _of_rows(limits: Iterable[Limit]) -> tuple[Limit, ...]:
    """Limits that leave rows unknown; what is mixed or crowded lacks its order alone."""
    kept = [limit for limit in limits if limit.cause in _ROWS and not any(word in limit.words for word in _ORDER)]
    return tuple(dict.fromkeys(kept))


def _compare(context: GradientContext, case: Case, bag: Bag) -> Bagged:
    quiet = noise_like(case.seen.gradient, context.rng("inversion", "noise", case.seen.name))
    nothing = bag_of(context.model, Case(replace(case.seen, gradient=quiet)))
    found = counts_of(context.model, case, bag)
    of_noise = counts_of(context.model, Case(case.seen, case.truths), nothing)
    return Bagged(
        case.seen.name,
        case.seen.batch,
        {measure: (int(right), int(wanted), int(named)) for measure, ((right, wanted, named), *_) in found.items()},
        {measure: lower_share(rows) for measure, rows in found.items()},
        {measure: lower_share(rows) for measure, rows in of_noise.items()},
        bag.limits,
    )


def counts_of(model: GradientModel, case: Case, bag: Bag) -> dict[str, NDArray[np.int64]]:
    """By measure how many came back, how many there are and how many were named, int64 (1 + fillings, 3)."""
    pages = [tuple(truth.text for truth in case.truths), *fillings(case)]
    split = [_private_and_public(model, case, texts) for texts in pages]
    found = {}
    for measure, items in bag.items.items():
        public = frozenset().union(*(other[measure] for _, other in split))
        wanted, named = [own[measure] - public for own, _ in split], items - public
        found[measure] = np.array([(len(each & named), len(each), len(named)) for each in wanted])
    return found


def lower_share(rows: NDArray[np.int64]) -> Counts:
    """The lower of precision and recall, as a count and of how many: naming everything is worth nothing."""
    return np.stack([rows[:, 0], rows[:, 1:].max(axis=1)], axis=1)


def _private_and_public(model: GradientModel, case: Case, texts: Iterable[Text]) -> tuple[Items, Items]:
    """Tokens and coordinates of private fields, and those of the form and the question."""
    encoder, decoder = model.word_encoder(), model.text_decoder()
    parts: list[tuple[Items, Items]] = []
    for text in texts:
        if encoder is not None:
            ids, boxes = encoder.tokens(text), encoder.boxes(text)
            mask = private_tokens(boxes, case.seen.template)
            parts.append((_of_tokens(ids[mask], boxes[mask]), _of_tokens(ids[~mask], boxes[~mask])))
        elif isinstance(model, LooksUpWords):
            parts.append(_of_tables(model.word_tables(), case, text))
        elif decoder is not None:
            ids, mask = answer_of(decoder, text)
            parts.append(({ANY_ORDER: frozenset(ids[mask].tolist())}, {ANY_ORDER: frozenset(ids[~mask].tolist())}))
    private, public = zip(*parts, strict=True)
    return _together(private), _together(public)


def _of_tables(tables: WordTables, case: Case, text: Text) -> tuple[Items, Items]:
    ids, boxes = tables.tokens(text), tables.boxes(text)
    mask = private_tokens(tables.places(text), case.seen.template)
    own = _of_tokens(ids[mask], boxes[mask])
    answer = frozenset(tables.answer(text).tolist())
    form = _of_tokens(ids[~mask], boxes[~mask])
    return {**own, ANY_ORDER: own[ANY_ORDER] | answer}, {**form, ANY_ORDER: form[ANY_ORDER] | tables.always}


def _of_tokens(ids: Tensor, boxes: Tensor) -> Items:
    places = torch.cat([boxes[:, [0, 2]], boxes[:, [1, 3]] + _DOWN]).flatten()
    return {ANY_ORDER: frozenset(ids.tolist()), COORDINATES: frozenset(places.tolist())}


def _together(parts: Sequence[Items]) -> Items:
    return {measure: frozenset().union(*(part[measure] for part in parts)) for measure in parts[0]}


def _named(model: GradientModel, bag: Bag) -> dict[str, object]:
    """What is kept where there is no truth: texts of the tokens, and coordinates."""
    reader = model.word_tables() if isinstance(model, LooksUpWords) else model.word_encoder() or model.text_decoder()
    tokens = sorted(bag.items[ANY_ORDER])
    words = [reader.decode([token]).strip() for token in tokens] if reader is not None else []
    places = sorted(bag.items.get(COORDINATES, ()))
    return {
        "words": words,
        "tokens": tokens,
        "x": [value for value in places if value < _DOWN],
        "y": [value - _DOWN for value in places if value >= _DOWN],
        "limits": [limit.words for limit in bag.limits],
    }
